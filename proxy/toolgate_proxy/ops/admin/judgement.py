"""Where a text that a model wrote without enforcement breaks its request."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import BaseModel

from toolgate_core.dialects.dialect import Dialect
from toolgate_core.errors import ToolgateError
from toolgate_core.schema.walk import at_pointer
from toolgate_core.tools import Tool
from toolgate_core.turn_text import NotInDialect, TurnMessage, parse

from ...chat.resampling_state import value_span
from ...request.plan import EnforcementPlan
from ...validation.service import ValidationService
from ...validation.validator import Violation

MAX_SHOWN = 300
"""Longest value of a keyword that a message repeats, in characters."""


class Break(BaseModel):
    """Where a text breaks its request. `begin`, `end`: offsets in UTF-16 code units."""

    begin: int
    end: int
    message: str
    pointer: str | None = None
    """In the arguments of the call, for a violation of its schema."""
    keyword: str | None = None


class Judgement(BaseModel):
    breaks: list[Break]
    calls: int
    """Number of calls that could be parsed."""
    cut: bool
    """Whether `max_tokens` ended the response."""


async def judge(
    text: str,
    finish_reason: str,
    tools: Sequence[Tool],
    plan: EnforcementPlan,
    dialect: Dialect,
    validators: ValidationService,
) -> Judgement:
    """Find where a response breaks its request. `text`: all that the model generated, with the
    marks of its dialect, without the end of the turn."""
    cut = finish_reason == "length"
    parsed = _parsed(text, dialect, tools)
    if isinstance(parsed, NotInDialect):
        begin = len(text.encode()[: parsed.at].decode(errors="ignore"))
        # A response that was cut may end anywhere.
        broken = [] if cut and begin >= len(text) else [_break(text, begin, parsed.message)]
        return Judgement(breaks=broken, calls=0, cut=cut)
    breaks = await _invalid_calls(text, parsed, tools, validators)
    breaks += _plan_violations(text, parsed, plan)
    return Judgement(breaks=breaks, calls=len(parsed.calls), cut=cut)


def _parsed(text: str, dialect: Dialect, tools: Sequence[Tool]) -> TurnMessage | NotInDialect:
    """Read a response whose reasoning the prompt may have opened."""
    errors = []
    for is_open in (False, True):
        try:
            return parse(text, dialect, tools, reasoning_open=is_open)
        except NotInDialect as error:
            errors.append(error)
    return errors[0]


async def _invalid_calls(
    text: str, message: TurnMessage, tools: Sequence[Tool], validators: ValidationService
) -> list[Break]:
    by_name = {tool.name: tool for tool in tools}
    breaks, after = list[Break](), 0
    for call, arguments in zip(message.calls, message.arguments, strict=True):
        begin = text.find(arguments, after) if arguments else -1
        end = begin + len(arguments)
        if begin < 0:  # the dialect does not write JSON
            begin, end = max(0, text.find(call.name, after)), len(text)
        after = begin
        tool = by_name[call.name]
        try:
            await validators.prepare([tool])
            violation = await validators.check(tool, arguments)
        except ToolgateError as error:
            breaks.append(_break(text, begin, error.message, end))
            continue
        if violation is not None:
            if text[begin:end] == arguments and violation.keyword:
                first, last = value_span(arguments, violation.pointer)
                begin, end = begin + first, begin + last
            broken = _break(text, begin, f"{call.name}: {_problem(violation, tool)}.", end)
            broken.pointer, broken.keyword = violation.pointer, violation.keyword or None
            breaks.append(broken)
    return breaks


def _problem(violation: Violation, tool: Tool) -> str:
    if not violation.keyword:
        return "the arguments are not valid JSON"
    place = f"{violation.pointer} violates" if violation.pointer else "the arguments violate"
    try:
        demanded = json.dumps(at_pointer(tool.parameters, violation.schema_pointer))
    except LookupError:  # the pointer goes through a reference
        demanded = ""
    detail = f", which is {demanded}" if 0 < len(demanded) <= MAX_SHOWN else ""
    return f"{place} `{violation.keyword}`{detail}"


def _plan_violations(text: str, message: TurnMessage, plan: EnforcementPlan) -> list[Break]:
    calls, names = message.calls, {tool.name for tool in plan.candidates}
    if plan.choice == "required" and not calls:
        return [_break(text, len(text), "There is no call, but the request requires one.")]
    if plan.choice == "none" and calls:
        return [_break(text, 0, "There is a call, but the request allows none.")]
    for other in (call.name for call in calls if call.name not in names):
        at = max(0, text.find(other))
        return [_break(text, at, f"The request does not allow calls of {other}.", at + len(other))]
    if plan.max_calls is not None and len(calls) > plan.max_calls:
        allowed = "one call" if plan.max_calls == 1 else f"{plan.max_calls} calls"
        return [_break(text, 0, f"There are {len(calls)} calls, but the request allows {allowed}.")]
    return []


def _break(text: str, begin: int, message: str, end: int | None = None) -> Break:
    """Return a break from `begin` to `end`, by default to the end of the text."""
    first, last = (len(text[:at].encode("utf-16-le")) // 2 for at in (begin, end))
    return Break(begin=first, end=last, message=message)
