"""What an answer must fulfil, and what two answers must have in common."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any

from tests.support.schemas.validation import schema_violation
from toolgate_verify.asking.ask import Ask
from toolgate_verify.reading.answer import Answer
from toolgate_verify.terms import Api

MARKUP = (
    *("<tool_call>", "</tool_call>", "<think>", "</think>", "<tool_response>", "</tool_response>"),
    *("<|im_start|>", "<|im_end|>"),
)
"""Marks of Qwen3's family."""
Violation = tuple[str, Any]
"""The kind of a broken rule, and a detail."""


def compared(answer: Answer, *, exact: bool, reasoning: bool) -> tuple[Any, ...]:
    """Return what two answers must have in common. `exact`: with the spelling of arguments and with
    incomplete calls, which the Messages API does not have."""
    calls: list[tuple[Any, ...]] = [(c.name, c.arguments, c.complete) for c in answer.calls]
    if not exact:
        calls = [(name, _sorted(text)) for name, text, complete in calls if complete]
    usage = answer.usage
    counts = (usage.prompt, usage.completion) if usage else None
    return answer.text, answer.reasoning if reasoning else "", calls, answer.cut, counts


def _sorted(arguments: str) -> str:
    return json.dumps(json.loads(arguments), sort_keys=True)


def shows_reasoning(api: Api, case: Ask) -> bool:
    """Whether the answer has the reasoning of the model."""
    return api != Api.MESSAGES or case.reasoning not in (None, "none")


def violations(
    api: Api, case: Ask, answer: Answer, markup: Collection[str] = MARKUP
) -> Iterator[Violation]:
    """Each rule that the answer to a request breaks. `markup`: the marks of the model's family."""
    for name, text in (("content", answer.text), ("reasoning", answer.reasoning)):
        for mark in markup:
            if mark in text:
                yield f"markup in {name}", text[max(0, text.index(mark) - 40) :][:80]
    if answer.reasoning and (case.reasoning == "none" or not shows_reasoning(api, case)):
        yield "reasoning that was not asked for", answer.reasoning[:80]
    if answer.finish != (expected := _finish(api, case, answer)):
        yield "wrong reason of the end", f"{answer.finish} instead of {expected}"
    yield from _calls(case, answer)
    yield from _choice(case, answer)
    usage = answer.usage
    if usage is None or usage.prompt <= 0 or not 0 < usage.completion <= case.max_tokens:
        yield "implausible usage", usage
    closed = case.extra.get("toolgate", {}).get("on_budget") == "close"  # from its reserve on
    if answer.cut and usage and usage.completion < case.max_tokens and not closed:
        yield "cut before the maximum", usage


def _finish(api: Api, case: Ask, answer: Answer) -> str:
    """The end that the answer must have."""
    if answer.cut:
        return "length"
    named = api == Api.CHAT and case.choice.startswith("=")  # OpenAI's API says `stop` then
    return "calls" if answer.calls and not named else "stop"


def _calls(case: Ask, answer: Answer) -> Iterator[Violation]:
    schemas = {tool.name: tool.parameters for tool in case.tools}
    if not all(call.complete for call in answer.calls[:-1]):
        yield "incomplete call before the last", answer.calls
    if answer.calls and not answer.calls[-1].complete and not answer.cut:
        yield "incomplete call of a complete response", answer.calls[-1]
    for call in answer.calls:
        if not call.complete:
            continue
        if call.name not in schemas:
            yield "unknown tool", call.name
            continue
        try:
            value = json.loads(call.arguments)
        except ValueError as error:
            yield "arguments do not parse", f"{error}: {call.arguments[-100:]}"
            continue
        if (wrong := schema_violation(schemas[call.name], value)) is not None:
            yield "arguments violate the schema", f"{call.name}: {wrong}"


def _choice(case: Ask, answer: Answer) -> Iterator[Violation]:
    named = case.choice[1:] if case.choice.startswith("=") else ""
    others = [call.name for call in answer.calls if call.name != named]
    if named and others:
        yield "another tool than the named one", others[0]
    if case.choice == "none" and answer.calls:
        yield "call although none", answer.calls[0]
    if (named or case.choice == "required") and not answer.calls and not answer.cut:
        yield "no call although required", answer.text[:80]
    if len(answer.calls) > 1 and (named or not case.parallel):
        yield "more than one call", len(answer.calls)
