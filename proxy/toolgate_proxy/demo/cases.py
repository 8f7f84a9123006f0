"""The six cases of the demo: their requests, and the properties that every response must have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .properties import (
    AT_LEAST_ONE,
    AT_MOST_ONE,
    NO_CALL,
    REASONING,
    SENTENCE,
    Property,
    always,
    arguments,
    calls_for_cities,
    calls_of,
    three_short_tags,
)


@dataclass(frozen=True)
class Case:
    title: str
    """Cases with the same title are variants of one."""
    request: dict[str, Any]
    properties: dict[str, Property]
    """Enforced properties, which the output of any model has."""
    correctness: dict[str, Property] = field(default_factory=dict)
    """Properties of the output of a model that understands the request."""


def _function(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    parameters = {"type": "object", **parameters, "additionalProperties": False}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


# The demo model was trained with these descriptions.
WEATHER = _function(
    "get_weather",
    "The weather in a city, now",
    {
        "properties": {
            "city": {"type": "string"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        },
        "required": ["city"],
    },
)
RETURN_JSON = _function(
    "return_json",
    "Return the answer and how sure you are of it",
    {
        "properties": {"answer": {"type": "string"}, "confidence": {"type": "number"}},
        "required": ["answer", "confidence"],
    },
)
TAGS = _function(
    "set_tags",
    "Set exactly three short tags",
    {
        "properties": {
            "tags": {
                "type": "array",
                "minItems": 3,
                "maxItems": 3,
                "items": {"type": "string", "maxLength": 6},
            }
        },
        "required": ["tags"],
    },
)
SCHEMAS = {
    tool["function"]["name"]: tool["function"]["parameters"]
    for tool in (WEATHER, RETURN_JSON, TAGS)
}

TWO_CITIES = [{"role": "user", "content": "What's the weather in Beijing and Shanghai?"}]
NO_THINKING: dict[str, Any] = {"reasoning_effort": "none"}


_ALWAYS = always(SCHEMAS)


def cases() -> list[Case]:
    """The first three cases run with `auto`, where a model may call, and with `required`, where it
    must. A random model rarely calls a tool with `auto`."""
    return [
        *_both(
            "two cities, parallel calls",
            {"messages": TWO_CITIES, "tools": [WEATHER], **NO_THINKING},
            {},
            {"one call for each city": calls_for_cities("Beijing", "Shanghai")},
        ),
        *_both(
            "parallel_tool_calls=False",
            {
                "messages": TWO_CITIES,
                "tools": [WEATHER],
                "parallel_tool_calls": False,
                **NO_THINKING,
            },
            AT_MOST_ONE,
            {"a call for the first city": calls_for_cities("Beijing")},
        ),
        *_both(
            'reasoning_effort="high"',
            {"messages": TWO_CITIES, "tools": [WEATHER], "reasoning_effort": "high"},
            REASONING,
            {"one call for each city": calls_for_cities("Beijing", "Shanghai")},
        ),
        Case(
            'tool_choice="none"',
            {"messages": TWO_CITIES, "tools": [WEATHER], "tool_choice": "none", **NO_THINKING},
            {**NO_CALL, **_ALWAYS},
            SENTENCE,
        ),
        Case(
            "the named function return_json",
            {
                "messages": [{"role": "user", "content": "Is the earth round?"}],
                "tools": [WEATHER, RETURN_JSON],
                "tool_choice": {"type": "function", "function": {"name": "return_json"}},
                **NO_THINKING,
            },
            {"exactly one call of return_json": calls_of("return_json"), **_ALWAYS},
            {
                'the answer is "yes"': Property(
                    lambda output: arguments(output)[0]["answer"].lower() == "yes"
                )
            },
        ),
        Case(
            "an array of exactly 3 strings of at most 6 characters",
            {
                "messages": [{"role": "user", "content": "Tag this: a fast red car"}],
                "tools": [TAGS],
                "tool_choice": "required",
                "parallel_tool_calls": False,
                **NO_THINKING,
            },
            {"three tags of at most 6 characters": Property(three_short_tags), **_ALWAYS},
            {
                "the words of the text": Property(
                    lambda output: arguments(output)[0]["tags"] == ["fast", "red", "car"]
                )
            },
        ),
    ]


def _both(
    title: str,
    request: dict[str, Any],
    properties: dict[str, Property],
    correctness: dict[str, Property],
) -> list[Case]:
    return [
        Case(
            title,
            {**request, "tool_choice": "auto"},
            {**properties, **_ALWAYS},
            correctness,
        ),
        Case(
            title,
            {**request, "tool_choice": "required"},
            {**AT_LEAST_ONE, **properties, **_ALWAYS},
            correctness,
        ),
    ]
