"""The six cases of the demo: what is asked, what must hold of every answer, and what is true."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jsonschema

MARKUP = ("<tool_call>", "</tool_call>", "<think>", "</think>", "<|im_start|>", "<|im_end|>")


@dataclass
class Answer:
    """One choice, streamed or not, in one form."""

    content: str | None = None
    reasoning: str | None = None
    calls: list[tuple[str, str]] = field(default_factory=list)
    finish_reason: str | None = None


Holds = Callable[[Answer], bool]


@dataclass(frozen=True)
class Case:
    title: str
    request: dict[str, Any]
    properties: dict[str, Holds]
    """Hold whatever the model is."""
    truth: dict[str, Holds] = field(default_factory=dict)
    """Holds where the model understands what it is asked."""


def _function(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    parameters = {"type": "object", **parameters, "additionalProperties": False}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


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


def cases() -> list[Case]:
    """Under `auto` a model may call; under `required` it must: the first three are shown both ways,
    since a random model seldom chooses to."""
    return [
        *_both(
            "1. two cities, parallel calls",
            {"messages": TWO_CITIES, "tools": [WEATHER], **NO_THINKING},
            {},
            {"both cities, a call each": _of_cities("Beijing", "Shanghai")},
        ),
        *_both(
            "2. parallel_tool_calls=False",
            {
                "messages": TWO_CITIES,
                "tools": [WEATHER],
                "parallel_tool_calls": False,
                **NO_THINKING,
            },
            {"at most one call": lambda a: len(a.calls) <= 1},
            {"the first city": _of_cities("Beijing")},
        ),
        *_both(
            '3. reasoning_effort="high"',
            {"messages": TWO_CITIES, "tools": [WEATHER], "reasoning_effort": "high"},
            {
                "reasoning apart from content": lambda a: bool(a.reasoning),
                "no markup in the reasoning": lambda a: not _marked(a.reasoning),
            },
            {"both cities, a call each": _of_cities("Beijing", "Shanghai")},
        ),
        Case(
            '4. tool_choice="none"',
            {"messages": TWO_CITIES, "tools": [WEATHER], "tool_choice": "none", **NO_THINKING},
            {"no call": lambda a: not a.calls, **_ALWAYS},
            {"a sentence that ends": _says_something},
        ),
        Case(
            "5. the named function return_json",
            {
                "messages": [{"role": "user", "content": "Is the earth round?"}],
                "tools": [WEATHER, RETURN_JSON],
                "tool_choice": {"type": "function", "function": {"name": "return_json"}},
                **NO_THINKING,
            },
            {
                "exactly one call, of return_json": lambda a: (
                    [name for name, _ in a.calls] == ["return_json"]
                ),
                **_ALWAYS,
            },
            {"the earth is round": lambda a: _arguments(a)[0]["answer"].lower() == "yes"},
        ),
        Case(
            "6. an array of exactly 3 strings of at most 6 characters",
            {
                "messages": [{"role": "user", "content": "Tag this: a fast red car"}],
                "tools": [TAGS],
                "tool_choice": "required",
                "parallel_tool_calls": False,
                **NO_THINKING,
            },
            {"three tags, none over 6 characters": _three_short_tags, **_ALWAYS},
            {"the words of the text": lambda a: _arguments(a)[0]["tags"] == ["fast", "red", "car"]},
        ),
    ]


def _both(
    title: str, request: dict[str, Any], properties: dict[str, Holds], truth: dict[str, Holds]
) -> list[Case]:
    called: dict[str, Holds] = {"at least one call": lambda a: bool(a.calls)}
    return [
        Case(
            f"{title}, auto", {**request, "tool_choice": "auto"}, {**properties, **_ALWAYS}, truth
        ),
        Case(
            f"{title}, required",
            {**request, "tool_choice": "required"},
            {**called, **properties, **_ALWAYS},
            truth,
        ),
    ]


def _arguments(answer: Answer) -> list[dict[str, Any]]:
    return [json.loads(arguments) for _, arguments in answer.calls]


def _of_cities(*cities: str) -> Holds:
    return lambda answer: [each.get("city") for each in _arguments(answer)] == [*cities]


def _says_something(answer: Answer) -> bool:
    return (answer.content or "").strip().endswith((".", "!", "?"))


def _marked(text: str | None) -> bool:
    return any(mark in (text or "") for mark in MARKUP)


def _valid(answer: Answer) -> bool:
    """Every call parses and validates; the last one may be cut when the budget ended the answer."""
    whole = answer.calls[:-1] if answer.finish_reason == "length" else answer.calls
    try:
        for name, arguments in whole:
            jsonschema.validate(json.loads(arguments), SCHEMAS[name])
    except (ValueError, KeyError, jsonschema.ValidationError):
        return False
    return True


def _finished(answer: Answer) -> bool:
    if answer.finish_reason == "length":
        return True
    return answer.finish_reason in (("tool_calls", "stop") if answer.calls else ("stop",))


def _three_short_tags(answer: Answer) -> bool:
    tags = json.loads(answer.calls[0][1])["tags"] if answer.calls else []
    return len(tags) == 3 and all(len(tag) <= 6 for tag in tags)


_ALWAYS: dict[str, Holds] = {
    "every call parses and validates": _valid,
    "no markup in the content": lambda a: not _marked(a.content),
    "finish_reason fits": _finished,
}
