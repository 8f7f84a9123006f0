"""The six cases of the demo in cases.yaml: their requests, and what every response to them must be.
Without enforcement, the demo model breaks each of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema_rs
import yaml

from toolgate_core.pointer import pointer_of

MARKUP = ("<tool_call>", "</tool_call>", "<think>", "</think>", "<|im_start|>", "<|im_end|>")
TWO_CITIES = "What's the weather in Beijing and Shanghai?"
NO_THINKING: dict[str, Any] = {"reasoning_effort": "none"}
_DATA = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **_DATA["tools"][name]}}


RESULTS: dict[str, dict[str, Any]] = _DATA["results"]
REQUESTS: list[str] = _DATA["requests"]
WEATHER, TICKET = tool("get_weather"), tool("open_ticket")


@dataclass
class ChoiceOutput:
    """The output of one choice, in the same form for streamed and complete responses."""

    content: str | None = None
    reasoning: str | None = None
    calls: list[tuple[str, str]] = field(default_factory=list)
    finish_reason: str | None = None


def output_of(choice: Any) -> ChoiceOutput:
    """Read a choice of the SDK, whose message has members that its types do not know."""
    message = choice.message
    calls = [(call.function.name, call.function.arguments) for call in message.tool_calls or []]
    reasoning = getattr(message, "reasoning_content", None)
    return ChoiceOutput(message.content or None, reasoning, calls, choice.finish_reason)


@dataclass(frozen=True)
class Case:
    title: str
    """Cases with the same title are variants of one."""
    request: dict[str, Any]
    expected: list[tuple[str, dict[str, Any]]]
    """Calls of a model that understands the request. They may have further arguments."""

    def understood(self, output: ChoiceOutput) -> bool:
        if not self.expected or output.finish_reason == "length":  # a sentence, or a cut call
            return not self.expected and (output.content or "").rstrip().endswith((".", "!", "?"))
        calls = [(name, json.loads(text)) for name, text in output.calls]
        pairs = zip(calls, self.expected, strict=False)
        right = [(name, arguments | values) for (_, arguments), (name, values) in pairs]
        return right == calls and len(calls) == len(self.expected)


def cases() -> Iterator[Case]:
    for row in _DATA["cases"]:
        for choice in row["choices"]:
            request = {
                "messages": [{"role": "user", "content": row["asked"]}],
                "tools": [tool(name) for name in row["tools"]],
                **row["parameters"],
                "tool_choice": choice,
            }
            yield Case(row["title"], request, row["expected"])


def properties(request: dict[str, Any], output: ChoiceOutput) -> dict[str, bool]:
    """Return what enforcement promises of the response to a case, and whether it is so. What the
    output does not have is left out: all calls of one without calls are valid."""
    calls, choice = output.calls, request["tool_choice"]
    ends = ("tool_calls", "stop", "length") if calls else ("stop", "length")
    checks = {"correct finish_reason": output.finish_reason in ends}
    if isinstance(choice, dict):
        name = choice["function"]["name"]
        checks[f"exactly one call of {name}"] = [each for each, _ in calls] == [name]
    elif choice != "auto":
        checks |= {"no call": not calls} if choice == "none" else {"at least one call": bool(calls)}
    if calls:
        # The last call may be incomplete if `max_tokens` was reached.
        complete = calls[: -1 if output.finish_reason == "length" else None]
        checks["all calls are valid"] = not problem_of(complete, request["tools"])
        if request.get("parallel_tool_calls") is False:
            checks["at most one call"] = len(calls) == 1
    if request.get("reasoning_effort") != "none":
        checks["reasoning separate from content"] = bool(output.reasoning)
    for part, text in (("content", output.content), ("reasoning", output.reasoning)):
        if text:
            checks[f"no markup in the {part}"] = not any(mark in text for mark in MARKUP)
    return checks


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
