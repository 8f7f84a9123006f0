"""What checks share: the scenarios with one request, and judgements of calls and texts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache, wraps
from typing import Any

import jsonschema_rs

from ..asking import pair, request
from ..asking.ask import Ask
from ..check import Judge
from ..exchange import Body, Request
from ..reading.answer import Answer, Call
from ..scenario import Evidence, Scenario, brief
from ..terms import Api, Failed, Skipped, require
from ..tools.tool import Tool

MARKUP = re.compile(
    r"</?tool_call|<\|tool|\[TOOL_CALLS\]|</?function|<\|python_tag\|>|<｜tool|<invoke|"
    r"<\|channel\|>|<\|im_(?:start|end)\|>|<tool_sep>|</?arg_(?:key|value)>|<\|action_"
)
"""Texts by which models mark calls and turns."""
THINK = re.compile(r"</?think(?:ing)?>|<\|(?:begin|end)_of_thought\|>|\[/?THINK\]")


Scenarios = Callable[[Api], Scenario]
"""The scenario of each API."""


def sending(
    name: str, requests: Callable[[Api], tuple[Request, ...]], ask: Ask, **more: Any
) -> Scenarios:
    """Makes a scenario with these requests."""

    @cache
    def make(api: Api) -> Scenario:
        return Scenario(f"{api}.{name}", api, requests(api), ask, **more)

    return make


def single(name: str, ask: Ask, **more: Any) -> Scenarios:
    """Makes a scenario with the request, not streamed."""
    return sending(name, lambda api: (request(api, ask),), ask, **more)


def paired(name: str, ask: Ask, fields: Mapping[Api, Body] | None = None) -> Scenarios:
    """Makes a scenario with the request not streamed (index 0) and streamed (index 1). `fields`:
    those that it has in each API."""
    extra = fields or {}
    return sending(
        name, lambda api: pair(api, replace(ask, extra={**ask.extra, **extra.get(api, {})})), ask
    )


def complete_calls(answer: Answer) -> list[Call]:
    """The calls that a client would execute: all, but the last of an answer that was cut."""
    calls = [call for call in answer.calls if call.complete]
    return calls[:-1] if answer.cut and len(calls) == len(answer.calls) else calls


def some_calls(answer: Answer) -> list[Call]:
    """The complete calls. Raises Skipped if there is none."""
    calls = complete_calls(answer)
    if not calls:
        cut = "its only call was cut by the token limit" if answer.cut else "it has no call"
        raise Skipped(f"the answer shows nothing: {cut}")
    return calls


def of_answers(judge: Callable[[Answer], None]) -> Judge:
    """Judges all answers of a scenario. Skipped only if each of them shows nothing."""

    @wraps(judge)
    def judge_all(evidence: Evidence) -> None:
        skipped: list[Skipped] = []
        for index in range(len(evidence.exchanges)):
            try:
                judge(evidence.answer(index))
            except Skipped as error:
                skipped.append(error)
        if skipped and len(skipped) == len(evidence.exchanges):
            raise skipped[0]

    return judge_all


def arguments_of(call: Call) -> dict[str, Any]:
    """The arguments as an object. Raises Failed."""
    try:
        arguments = json.loads(call.arguments, parse_constant=_no_constant)
    except ValueError as error:
        raise Failed(f"arguments are not JSON ({error}): {brief(call.arguments)}") from error
    if not isinstance(arguments, dict):
        raise Failed(f"arguments are not an object: {brief(call.arguments)}")
    return arguments


def check_call(call: Call, tools: Iterable[Tool]) -> None:
    """Raises Failed if the call names none of the tools, or does not satisfy its schema."""
    offered = {tool.name: tool for tool in tools}
    if call.name not in offered:
        raise Failed(f"a call of {call.name!r}, which was not offered")
    problem = violation(offered[call.name].parameters, arguments_of(call))
    if problem:
        raise Failed(f"{call.name}: {problem} in {brief(call.arguments)}")


def violation(schema: Any, value: Any) -> str:
    """The first violation of the schema, or an empty string."""
    validator = jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
    for error in validator.iter_errors(value):
        steps = (str(step).replace("~", "~0").replace("/", "~1") for step in error.instance_path)
        pointer = "".join(f"/{step}" for step in steps)
        return f"at {pointer or 'the root'}: {brief(error.message, 160)}"
    return ""


def has_call(answer: Answer) -> None:
    """Raises Failed if the answer has no call, and Skipped if the limit cut it before one."""
    if answer.cut and not answer.calls:
        raise Skipped("the token limit cut the answer before its call")
    require(answer.calls, f"no call, but the text {answer.text[:80]!r}")


def calls_satisfy(evidence: Evidence) -> None:
    """All complete calls satisfy the schema of their tool."""

    @of_answers
    def judge(answer: Answer) -> None:
        for call in some_calls(answer):
            check_call(call, evidence.ask.tools)

    judge(evidence)


@of_answers
def no_markup_in_text(answer: Answer) -> None:
    no_markup(answer.text)


@of_answers
def no_calls(answer: Answer) -> None:
    require(not answer.calls, "the answer has a call")


def no_markup(text: str) -> None:
    match = MARKUP.search(text)
    if match:
        raise Failed(f"the text contains {match[0]!r}: {brief(text[max(0, match.start() - 40) :])}")


def same(name: str, whole: Any, streamed: Any) -> None:
    """Raises Failed with the first difference."""
    if whole != streamed:
        raise Failed(f"{name} differ: {brief(repr(whole), 150)} and {brief(repr(streamed), 150)}")


def same_text(evidence: Evidence) -> None:
    same("texts", evidence.whole.text, evidence.streamed.text)


def same_finish(evidence: Evidence) -> None:
    same("finish reasons", evidence.whole.finish, evidence.streamed.finish)


def longer_prompt(evidence: Evidence, longer: int = 1, shorter: int = 0) -> None:
    """The prompt of one request has more tokens than that of another."""
    more, fewer = evidence.answer(longer).usage, evidence.answer(shorter).usage
    if more is None or fewer is None:
        raise Skipped("the answers have no usage")
    require(
        more.prompt > fewer.prompt,
        f"{more.prompt} prompt tokens, and {fewer.prompt} without what was added",
    )


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
