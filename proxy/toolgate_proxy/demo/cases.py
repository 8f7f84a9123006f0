"""The six cases of the demo: their requests, and the properties that every response must have."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jsonschema

MARKUP = ("<tool_call>", "</tool_call>", "<think>", "</think>", "<|im_start|>", "<|im_end|>")


@dataclass
class ChoiceOutput:
    """The output of one choice, in the same form for streamed and complete responses."""

    content: str | None = None
    reasoning: str | None = None
    calls: list[tuple[str, str]] = field(default_factory=list)
    finish_reason: str | None = None


Property = Callable[[ChoiceOutput], bool]


@dataclass(frozen=True)
class Case:
    title: str
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


def cases() -> list[Case]:
    """The first three cases run with `auto`, where a model may call, and with `required`, where it
    must. A random model rarely calls a tool with `auto`."""
    return [
        *_both(
            "1. two cities, parallel calls",
            {"messages": TWO_CITIES, "tools": [WEATHER], **NO_THINKING},
            {},
            {"one call for each city": _calls_for_cities("Beijing", "Shanghai")},
        ),
        *_both(
            "2. parallel_tool_calls=False",
            {
                "messages": TWO_CITIES,
                "tools": [WEATHER],
                "parallel_tool_calls": False,
                **NO_THINKING,
            },
            {"at most one call": lambda o: len(o.calls) <= 1},
            {"a call for the first city": _calls_for_cities("Beijing")},
        ),
        *_both(
            '3. reasoning_effort="high"',
            {"messages": TWO_CITIES, "tools": [WEATHER], "reasoning_effort": "high"},
            {
                "reasoning separate from content": lambda o: bool(o.reasoning),
                "no markup in the reasoning": lambda o: not _has_markup(o.reasoning),
            },
            {"one call for each city": _calls_for_cities("Beijing", "Shanghai")},
        ),
        Case(
            '4. tool_choice="none"',
            {"messages": TWO_CITIES, "tools": [WEATHER], "tool_choice": "none", **NO_THINKING},
            {"no call": lambda o: not o.calls, **_ALWAYS},
            {"a complete sentence": _is_sentence},
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
                "exactly one call of return_json": lambda o: (
                    [name for name, _ in o.calls] == ["return_json"]
                ),
                **_ALWAYS,
            },
            {'the answer is "yes"': lambda o: _arguments(o)[0]["answer"].lower() == "yes"},
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
            {"three tags of at most 6 characters": _three_short_tags, **_ALWAYS},
            {"the words of the text": lambda o: _arguments(o)[0]["tags"] == ["fast", "red", "car"]},
        ),
    ]


def _both(
    title: str,
    request: dict[str, Any],
    properties: dict[str, Property],
    correctness: dict[str, Property],
) -> list[Case]:
    called: dict[str, Property] = {"at least one call": lambda o: bool(o.calls)}
    return [
        Case(
            f"{title}, auto",
            {**request, "tool_choice": "auto"},
            {**properties, **_ALWAYS},
            correctness,
        ),
        Case(
            f"{title}, required",
            {**request, "tool_choice": "required"},
            {**called, **properties, **_ALWAYS},
            correctness,
        ),
    ]


def _arguments(output: ChoiceOutput) -> list[dict[str, Any]]:
    return [json.loads(arguments) for _, arguments in output.calls]


def _calls_for_cities(*cities: str) -> Property:
    return lambda output: [each.get("city") for each in _arguments(output)] == [*cities]


def _is_sentence(output: ChoiceOutput) -> bool:
    return (output.content or "").strip().endswith((".", "!", "?"))


def _has_markup(text: str | None) -> bool:
    return any(mark in (text or "") for mark in MARKUP)


def _valid(output: ChoiceOutput) -> bool:
    """All calls are valid. The last one may be incomplete if `max_tokens` was reached."""
    complete = output.calls[:-1] if output.finish_reason == "length" else output.calls
    try:
        for name, arguments in complete:
            jsonschema.validate(json.loads(arguments), SCHEMAS[name])
    except (ValueError, KeyError, jsonschema.ValidationError):
        return False
    return True


def _has_finish_reason(output: ChoiceOutput) -> bool:
    if output.finish_reason == "length":
        return True
    return output.finish_reason in (("tool_calls", "stop") if output.calls else ("stop",))


def _three_short_tags(output: ChoiceOutput) -> bool:
    tags = json.loads(output.calls[0][1])["tags"] if output.calls else []
    return len(tags) == 3 and all(len(tag) <= 6 for tag in tags)


_ALWAYS: dict[str, Property] = {
    "all calls are valid": _valid,
    "no markup in the content": lambda o: not _has_markup(o.content),
    "correct finish_reason": _has_finish_reason,
}
