"""What an answer must fulfil."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any

from tests.long.api_conformance.answer import Answer
from tests.long.api_conformance.apis.api import Api
from tests.long.api_conformance.case import Case
from tests.support.schemas.validation import schema_violation

MARKUP = (
    *("<tool_call>", "</tool_call>", "<think>", "</think>", "<tool_response>", "</tool_response>"),
    *("<|im_start|>", "<|im_end|>"),
)
"""Marks of Qwen3's family."""
Violation = tuple[str, Any]
"""The kind of a broken rule, and a detail."""


def violations(
    api: Api, case: Case, answer: Answer, markup: Collection[str] = MARKUP
) -> Iterator[Violation]:
    """Each rule that the answer to a request breaks. `markup`: the marks of the model's family."""
    for name in ("content", "reasoning"):
        text = getattr(answer, name)
        for mark in markup:
            if mark in text:
                yield f"markup in {name}", text[max(0, text.index(mark) - 40) :][:80]
    if answer.reasoning and (case.think is False or not api.shows_reasoning(case)):
        yield "reasoning that was not asked for", answer.reasoning[:80]
    if answer.reason != (expected := api.reason(case, answer)):
        yield "wrong reason of the end", f"{answer.reason} instead of {expected}"
    yield from _calls(case, answer)
    yield from _choice(case, answer)
    prompt, generated = answer.usage
    if prompt <= 0 or not 0 < generated <= case.max_tokens:
        yield "implausible usage", answer.usage
    closed = case.common.get("toolgate", {}).get("on_budget") == "close"  # from its reserve on
    if answer.cut and generated < case.max_tokens and not closed:
        yield "cut before the maximum", answer.usage


def _calls(case: Case, answer: Answer) -> Iterator[Violation]:
    schemas = {tool["name"]: tool["parameters"] for tool in case.tools}
    if not all(answer.complete[:-1]):
        yield "incomplete call before the last", answer.calls
    if answer.calls and not answer.complete[-1] and not answer.cut:
        yield "incomplete call of a complete response", answer.calls[-1]
    for (name, arguments), is_complete in zip(answer.calls, answer.complete, strict=True):
        if not is_complete:
            continue
        if name not in schemas:
            yield "unknown tool", name
            continue
        try:
            value = json.loads(arguments)
        except ValueError as error:
            yield "arguments do not parse", f"{error}: {arguments[-100:]}"
            continue
        if (wrong := schema_violation(schemas[name], value)) is not None:
            yield "arguments violate the schema", f"{name}: {wrong}"


def _choice(case: Case, answer: Answer) -> Iterator[Violation]:
    others = [name for name, _ in answer.calls if name != case.named]
    if case.choice == "named" and others:
        yield "another tool than the named one", others[0]
    if case.choice == "none" and answer.calls:
        yield "call although none", answer.calls[0]
    if case.choice in ("required", "named") and not answer.calls and not answer.cut:
        yield "no call although required", answer.content[:80]
    if len(answer.calls) > 1 and (case.choice == "named" or not case.parallel):
        yield "more than one call", len(answer.calls)
