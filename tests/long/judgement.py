"""What is wrong with the calls and the texts of an answer, whatever the API."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.schemas.validation import schema_violation
from toolgate_verify.asking.ask import Ask
from toolgate_verify.reading.answer import Answer

MARKUP = (
    *("<tool_call>", "</tool_call>", "<think>", "</think>", "<tool_response>", "</tool_response>"),
    *("<|im_start|>", "<|im_end|>"),
)
"""Marks of Qwen3's family."""
INPUT = "input"
"""Member that stands for the input of a custom tool in a schema."""
Violation = tuple[str, Any]
"""The kind of a broken rule, and a detail."""


@dataclass(frozen=True)
class Allowed:
    """The calls that a request allows."""

    schemas: Mapping[str, Mapping[str, Any]]
    """By name of the tool."""
    mode: str
    """`none`, `auto` or `required`."""
    single: bool
    """Whether one call at most is allowed."""


def allowed_by(case: Ask) -> Allowed:
    schemas = {tool.name: tool.parameters for tool in case.tools}
    if case.choice.startswith("="):
        name = case.choice[1:]
        return Allowed({name: schemas[name]}, "required", single=True)
    return Allowed(schemas, case.choice, single=not case.parallel)


def violations(
    answer: Answer, allowed: Allowed, markup: Collection[str] = MARKUP
) -> Iterator[Violation]:
    """Each rule that the answer breaks. `markup`: the marks of the model's family."""
    for name, text in (("content", answer.text), ("reasoning", answer.reasoning)):
        for mark in markup:
            if mark in text:
                yield f"markup in {name}", text[max(0, text.index(mark) - 40) :][:80]
    if answer.calls and allowed.mode == "none":
        yield "call although none", answer.calls[0]
    if not answer.calls and allowed.mode == "required" and not answer.cut:
        yield "no call although required", answer.text[:80]
    if len(answer.calls) > 1 and allowed.single:
        yield "more than one call", len(answer.calls)
    if not all(call.complete for call in answer.calls[:-1]):
        yield "incomplete call before the last", answer.calls
    if answer.calls and not answer.calls[-1].complete and not answer.cut:
        yield "incomplete call of a complete response", answer.calls[-1]
    for call in answer.calls:
        if not call.complete:
            continue
        if call.name not in allowed.schemas:
            yield "call of a tool that is not allowed", call.name
            continue
        arguments = json.dumps({INPUT: call.arguments}) if call.custom else call.arguments
        try:
            value = json.loads(arguments)
        except ValueError as error:
            yield "arguments do not parse", f"{error}: {arguments[-100:]}"
            continue
        if (wrong := schema_violation(allowed.schemas[call.name], value)) is not None:
            yield "arguments violate the schema", f"{call.name}: {wrong}"
