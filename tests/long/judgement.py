"""What is wrong with an answer: with its calls and texts, and with its end in one API."""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.schemas.judge import schema_violation
from toolgate_verify.asking.ask import Ask
from toolgate_verify.reading.answer import Answer
from toolgate_verify.terms import Api

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


def all_violations(
    api: Api, case: Ask, answer: Answer, markup: Collection[str] = MARKUP
) -> Iterator[Violation]:
    """Each rule that the answer of an API breaks, also about its reasoning, end and usage."""
    yield from violations(answer, allowed_by(case), markup)
    if answer.reasoning and (case.reasoning == "none" or not shows_reasoning(api, case)):
        yield "reasoning that was not asked for", answer.reasoning[:80]
    if answer.finish != (expected := _finish(api, case, answer)):
        yield "wrong reason of the end", f"{answer.finish} instead of {expected}"
    usage = answer.usage
    if usage is None or usage.prompt <= 0 or not 0 < usage.completion <= case.max_tokens:
        yield "implausible usage", usage
    guarded = case.extra.get("toolgate", {}).get("repetition_guard") is not False
    if answer.cut and usage and usage.completion < case.max_tokens and not guarded:
        yield "cut before the maximum", usage


def shows_reasoning(api: Api, case: Ask) -> bool:
    """Whether the answer has the reasoning of the model."""
    return api != Api.MESSAGES or case.reasoning not in (None, "none")


def _finish(api: Api, case: Ask, answer: Answer) -> str:
    """The end that the answer must have."""
    if answer.cut:
        return "length"
    named = api == Api.CHAT and case.choice.startswith("=")  # OpenAI's API says `stop` then
    return "calls" if answer.calls and not named else "stop"
