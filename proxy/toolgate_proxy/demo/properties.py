"""Properties that the demo checks of each response."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
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


def _everything(_output: ChoiceOutput) -> bool:
    return True


@dataclass(frozen=True)
class Property:
    holds: Callable[[ChoiceOutput], bool]
    applies: Callable[[ChoiceOutput], bool] = _everything
    """Whether the output has what the property is about. Every call of an output without calls is
    valid, which shows nothing."""

    def __call__(self, output: ChoiceOutput) -> bool:
        return self.holds(output)


def has_calls(output: ChoiceOutput) -> bool:
    return bool(output.calls)


def always(schemas: Mapping[str, dict[str, Any]]) -> dict[str, Property]:
    """The properties of every response to a request with these tools."""
    return {
        "all calls are valid": Property(lambda output: _valid(output, schemas), has_calls),
        "no markup in the content": Property(
            lambda output: not _has_markup(output.content), lambda output: bool(output.content)
        ),
        "correct finish_reason": Property(_has_finish_reason),
    }


AT_LEAST_ONE = {"at least one call": Property(has_calls)}
AT_MOST_ONE = {"at most one call": Property(lambda output: len(output.calls) <= 1, has_calls)}
NO_CALL = {"no call": Property(lambda output: not output.calls)}
REASONING = {
    "reasoning separate from content": Property(lambda output: bool(output.reasoning)),
    "no markup in the reasoning": Property(
        lambda output: not _has_markup(output.reasoning), lambda output: bool(output.reasoning)
    ),
}
SENTENCE = {
    "a complete sentence": Property(
        lambda output: (output.content or "").strip().endswith((".", "!", "?"))
    )
}


def calls_of(*names: str) -> Property:
    return Property(lambda output: [name for name, _ in output.calls] == [*names])


def calls_for_cities(*cities: str) -> Property:
    return Property(lambda output: [each.get("city") for each in arguments(output)] == [*cities])


def three_short_tags(output: ChoiceOutput) -> bool:
    tags = arguments(output)[0]["tags"] if output.calls else []
    return len(tags) == 3 and all(len(tag) <= 6 for tag in tags)


def arguments(output: ChoiceOutput) -> list[dict[str, Any]]:
    return [json.loads(text) for _, text in output.calls]


def satisfies(output: ChoiceOutput, has_property: Property) -> bool:
    try:
        return has_property(output)
    except (LookupError, ValueError, AttributeError):
        return False  # the output has no call with the arguments that the property reads


def _has_markup(text: str | None) -> bool:
    return any(mark in (text or "") for mark in MARKUP)


def _valid(output: ChoiceOutput, schemas: Mapping[str, dict[str, Any]]) -> bool:
    """All calls are valid. The last one may be incomplete if `max_tokens` was reached."""
    complete = output.calls[:-1] if output.finish_reason == "length" else output.calls
    try:
        for name, text in complete:
            jsonschema.validate(json.loads(text), schemas[name])
    except (ValueError, KeyError, jsonschema.ValidationError):
        return False
    return True


def _has_finish_reason(output: ChoiceOutput) -> bool:
    if output.finish_reason == "length":
        return True
    return output.finish_reason in (("tool_calls", "stop") if output.calls else ("stop",))
