"""The six cases of the demo: their requests, and what every response to them must be. Without
enforcement, the demo model breaks each of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import jsonschema_rs

from toolgate_core.pointer import pointer_of

MARKUP = ("<tool_call>", "</tool_call>", "<think>", "</think>", "<|im_start|>", "<|im_end|>")
TWO_CITIES = "What's the weather in Beijing and Shanghai?"
KELVIN = "What's the weather in Beijing and Shanghai in kelvin?"
NO_THINKING: dict[str, Any] = {"reasoning_effort": "none"}


@dataclass
class ChoiceOutput:
    """The output of one choice, in the same form for streamed and complete responses."""

    content: str | None = None
    reasoning: str | None = None
    calls: list[tuple[str, str]] = field(default_factory=list)
    finish_reason: str | None = None


@dataclass(frozen=True)
class Case:
    title: str
    """Cases with the same title are variants of one."""
    request: dict[str, Any]
    expected: tuple[tuple[str, dict[str, Any]], ...]
    """Calls of a model that understands the request. They may have further arguments."""

    def understood(self, output: ChoiceOutput) -> bool:
        if not self.expected or output.finish_reason == "length":  # a sentence, or a cut call
            return not self.expected and (output.content or "").rstrip().endswith((".", "!", "?"))
        calls = [(name, json.loads(text)) for name, text in output.calls]
        pairs = zip(calls, self.expected, strict=False)
        right = [(name, arguments | values) for (_, arguments), (name, values) in pairs]
        return right == calls and len(calls) == len(self.expected)


def _tool(name: str, description: str, **properties: Any) -> dict[str, Any]:
    """Return a tool. All arguments but `unit` are required."""
    parameters: dict[str, Any] = {"type": "object", "properties": properties}
    parameters["required"] = [each for each in properties if each != "unit"]
    parameters["additionalProperties"] = False
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


STRING, UNIT = {"type": "string"}, {"type": "string", "enum": ["celsius", "fahrenheit"]}
THREE = {"type": "array", "minItems": 3, "maxItems": 3, "items": {**STRING, "maxLength": 6}}
# The demo model was trained with these descriptions.
WEATHER = _tool("get_weather", "The weather in a city, now", city=STRING, unit=UNIT)
SURE = "Return the answer and how sure you are of it"
ANSWER = _tool("return_json", SURE, answer=STRING, confidence={"type": "number"})
TAGS = _tool("set_tags", "Set exactly three short tags", tags=THREE)
PARAMETERS = json.loads("""{"type": "object", "properties": {
    "code": {"type": "string", "pattern": "^[A-Z]{2,4}-[0-9]{3,5}$"},
    "priority": {"type": "string", "enum": ["low", "medium", "high"]},
    "due": {"type": "string", "format": "date-time"},
    "labels": {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 12},
        "minItems": 2, "maxItems": 2},
    "contact": {"anyOf": [{"type": "object", "properties": {
        "name": {"type": "string", "maxLength": 40},
        "channel": {"type": "string", "enum": ["email", "sms", "push"]}},
        "required": ["name", "channel"], "additionalProperties": false}, {"type": "null"}]}},
    "required": ["code"], "additionalProperties": false}""")
FUNCTION = {"name": "open_ticket", "description": "Open a ticket", "parameters": PARAMETERS}
TICKET: dict[str, Any] = {"type": "function", "function": FUNCTION}


def cases() -> Iterator[Case]:
    """Yield the cases. The first three have two variants: `auto`, where a model may call, and
    `required`, where it must. A random model rarely calls a tool with `auto`."""
    weather, kelvin = (_asked(text, WEATHER) for text in (TWO_CITIES, KELVIN))
    ticket = _asked("Open ticket WEB-2143 with HIGH priority", TICKET)
    one, two = (("get_weather", {"city": city}) for city in ("Beijing", "Shanghai"))
    opened = ("open_ticket", {"code": "WEB-2143", "priority": "high"})
    single = {"parallel_tool_calls": False, **NO_THINKING}
    for title, request, expected in (
        ("two cities, parallel calls", kelvin | NO_THINKING, (one, two)),
        ("parallel_tool_calls=False", weather | single, (one,)),
        ('reasoning_effort="high"', ticket | {"reasoning_effort": "high"}, (opened,)),
    ):
        for choice in ("auto", "required"):
            yield Case(title, request | {"tool_choice": choice}, expected)
    yield Case('tool_choice="none"', weather | {"tool_choice": "none"} | NO_THINKING, ())
    named = {"type": "function", "function": {"name": "return_json"}}
    request = _asked("Is it sunny in Beijing?", WEATHER, ANSWER) | {"tool_choice": named}
    yes = ("return_json", {"answer": "yes"})
    yield Case("the named function return_json", request | NO_THINKING, (yes,))
    request = _asked("Tag this: a fast red sports car", TAGS) | {"tool_choice": "required"} | single
    tags = ("set_tags", {"tags": ["fast", "red", "sports"]})
    yield Case("an array of exactly 3 strings of at most 6 characters", request, (tags,))


def _asked(text: str, *tools: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "tools": [*tools]}


def properties(request: dict[str, Any], output: ChoiceOutput) -> dict[str, bool]:
    """Return what enforcement promises of the response to a case, and whether it is so. What the
    output does not have is left out: all calls of one without calls are valid."""
    calls, choice = output.calls, request["tool_choice"]
    ends = ("tool_calls", "stop", "length") if calls else ("stop", "length")
    found = {"correct finish_reason": output.finish_reason in ends}
    if isinstance(choice, dict):
        name = choice["function"]["name"]
        found[f"exactly one call of {name}"] = [each for each, _ in calls] == [name]
    elif choice != "auto":
        found |= {"no call": not calls} if choice == "none" else {"at least one call": bool(calls)}
    if calls:
        # The last call may be incomplete if `max_tokens` was reached.
        complete = calls[: -1 if output.finish_reason == "length" else None]
        found["all calls are valid"] = not problem_of(complete, request["tools"])
        if request.get("parallel_tool_calls") is False:
            found["at most one call"] = len(calls) == 1
    if request.get("reasoning_effort") != "none":
        found["reasoning separate from content"] = bool(output.reasoning)
    for part, text in (("content", output.content), ("reasoning", output.reasoning)):
        if text:
            found[f"no markup in the {part}"] = not any(mark in text for mark in MARKUP)
    return found


def problem_of(calls: Sequence[tuple[str, str]], tools: list[dict[str, Any]]) -> str:
    """Return what is wrong with names and arguments of calls, or ""."""
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    for name, text in calls:
        try:
            value = json.loads(text, parse_float=Decimal)  # 1e400 is valid JSON
            jsonschema_rs.validate(schemas[name], value, validate_formats=True)
        except KeyError:
            return f"there is no tool {name!r}"
        except jsonschema_rs.ValidationError as error:
            return f"{pointer_of(error.schema_path)} {error.message}"
        except ValueError as error:
            return f"the call is not JSON ({error})"
    return ""
