"""Required calls of strict tools: presence, arguments, IDs, finish reasons, streams. Several calls
in one answer, and calls with long arguments."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

from ..asking import request
from ..asking.ask import Ask, Assistant, CallTurn, ToolResult, User
from ..check import rule
from ..exchange import Request
from ..reading.answer import Answer
from ..scenario import Evidence
from ..terms import Failed, Severity, Skipped, Suite, require
from ..tools.everyday import BOUNDS, LIGHT, NOTE
from ..tools.sets import LONG
from .common import (
    arguments_of,
    calls_satisfy,
    complete_calls,
    no_markup_in_text,
    of_answers,
    paired,
    same,
    same_finish,
    single,
    some_calls,
)

LIGHTS = (User("Switch on the light in the kitchen."),)
ONE_CALL = Ask(LIGHTS, tools=(LIGHT, NOTE), choice="required", parallel=False, max_tokens=300)
CALL = paired("call", ONE_CALL)
UNSTRICT = paired(
    "unstrict",
    Ask(LIGHTS, tools=(LIGHT,), strict=False, choice="required", parallel=False, max_tokens=300),
)


@rule(
    "calls.arguments_json",
    "Arguments are a JSON object",
    "The arguments of a strict tool's call are JSON that the tool's schema describes.",
    topic="strict",
    scenario=CALL,
    severity=Severity.CRITICAL,
)
@of_answers
def _json(answer: Answer) -> None:
    for call in some_calls(answer):
        arguments_of(call)


rule(
    "calls.arguments_valid",
    "Arguments satisfy the schema",
    "With `strict: true` the arguments of a call always satisfy the tool's schema.",
    topic="strict",
    scenario=CALL,
    severity=Severity.CRITICAL,
)(calls_satisfy)


@rule(
    "calls.no_duplicate_members",
    "Arguments have no member twice",
    "The names within an object are unique; parsers disagree about others.",
    topic="json_objects",
    scenario=CALL,
    severity=Severity.MINOR,
)
@of_answers
def _duplicates(answer: Answer) -> None:
    for call in some_calls(answer):
        try:
            json.loads(call.arguments, object_pairs_hook=_unique)
        except KeyError as error:
            raise Failed(f"{error} twice in {call.arguments[:120]}") from error
        except ValueError:
            continue


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members: dict[str, object] = {}
    for name, value in pairs:
        if name in members:
            raise KeyError(name)
        members[name] = value
    return members


@rule(
    "calls.id",
    "Each call has an ID",
    "A call has an ID, to which its result refers.",
    topic="calls",
    scenario=CALL,
)
@of_answers
def _ids(answer: Answer) -> None:
    require(all(call.id for call in some_calls(answer)), "a call has no ID")


def _next(evidence: Evidence) -> tuple[Request, ...]:
    """The next turn of the conversation."""
    call = some_calls(evidence.answer(0))[0]
    before = (Assistant(calls=(CallTurn(call.id, call.name, arguments_of(call)),)),)
    turns = (*LIGHTS, *before, ToolResult(call.id, "done"), User("And the one in the hall."))
    return (request(evidence.api, replace(evidence.ask, turns=turns)),)


@rule(
    "calls.ids_fresh",
    "IDs of calls in a conversation differ",
    "The ID of a call identifies it in the conversation.",
    topic="calls",
    scenario=single("next_call", ONE_CALL, follow=_next, followers=1),
)
def _fresh(evidence: Evidence) -> None:
    first = some_calls(evidence.answer(0))[0].id
    require(
        all(call.id != first for call in some_calls(evidence.answer(1))),
        f"the calls of two turns have the ID {first!r}",
    )


@rule(
    "calls.finish",
    "An answer with calls ends with the reason for calls",
    "An answer that ends with a call has the finish reason of calls.",
    topic="finish",
    scenario=CALL,
)
@of_answers
def _finish(answer: Answer) -> None:
    if answer.cut:
        raise Skipped("the answer was cut")
    if answer.calls:
        require(answer.finish == "calls", f"calls and the finish reason {answer.finish!r}")


rule(
    "calls.no_markup",
    "The markup of calls is not in the text",
    "Calls are in the field for calls; the text does not repeat their markup.",
    topic="calls",
    scenario=CALL,
)(no_markup_in_text)


@rule(
    "stream.calls_same",
    "Streamed and whole calls are equal at temperature 0",
    "The fragments of a call add up to the call that is sent without streaming.",
    topic="stream",
    scenario=CALL,
    severity=Severity.CRITICAL,
    confirm=True,
)
def calls_same(evidence: Evidence) -> None:
    whole, streamed = (
        [(call.name, _value(call.arguments)) for call in complete_calls(answer)]
        for answer in (evidence.whole, evidence.streamed)
    )
    same("calls", whole, streamed)


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


rule(
    "stream.calls_same_finish",
    "Streamed and whole finish reasons of calls are equal",
    "A stream ends with the finish reason of the whole answer.",
    topic="finish",
    scenario=CALL,
    confirm=True,
)(same_finish)
rule(
    "calls.unstrict_json",
    "Arguments are a JSON object without `strict`",
    "A required call of a tool that is not strict has arguments in JSON.",
    topic="calls",
    scenario=UNSTRICT,
)(_json)
rule(
    "calls.unstrict_valid",
    "Arguments satisfy the schema without `strict`",
    "Without `strict`, arguments follow the schema as well as the model can (best effort).",
    topic="strict",
    scenario=UNSTRICT,
    severity=Severity.MINOR,
)(calls_satisfy)


SEVERAL = paired(
    "several",
    Ask(
        (User("Switch on the lights in kitchen and hall, and set an alarm for 7."),),
        tools=(LIGHT, NOTE, BOUNDS),
        choice="required",
        parallel=True,
        max_tokens=300,
    ),
)
LENGTHY = paired(
    "long_arguments",
    Ask((User(LONG.prompt),), tools=(LONG,), choice="required", parallel=False, max_tokens=800),
)


_rule = partial(rule, topic="stream", scenario=SEVERAL, severity=Severity.CRITICAL)

_rule(
    "parallel.valid",
    "Each of several calls satisfies its schema",
    "With several calls, each satisfies the schema of its tool.",
    topic="parallel",
)(calls_satisfy)


@_rule(
    "parallel.ids",
    "Several calls have different IDs",
    "Each call of an answer has an ID of its own.",
    topic="parallel",
)
@of_answers
def _several_ids(answer: Answer) -> None:
    ids = [call.id for call in answer.calls]
    if len(ids) < 2:
        raise Skipped("the answer has fewer than two calls")
    require(len({*ids}) == len(ids), f"two calls have one ID: {ids}")


_rule(
    "parallel.same",
    "Several calls are equal, streamed and whole, at temperature 0",
    "The fragments of each call add up to the call that is sent without streaming.",
    confirm=True,
)(calls_same)
_rule(
    "long.valid",
    "Long arguments satisfy the schema",
    "The length of arguments does not affect their validity.",
    topic="strict",
    scenario=LENGTHY,
)(calls_satisfy)
_rule(
    "long.same",
    "Long arguments are equal, streamed and whole, at temperature 0",
    "The fragments of a call add up to the call that is sent without streaming.",
    scenario=LENGTHY,
    confirm=True,
)(calls_same)


@_rule(
    "long.parts",
    "Long arguments arrive in several parts",
    "Arguments are streamed as they are generated.",
    scenario=LENGTHY,
    severity=Severity.MINOR,
    suite=Suite.FULL,
)
def _long_parts(evidence: Evidence) -> None:
    some_calls(evidence.streamed)
    text = evidence.ok(1).text
    # Each fragment of arguments is an event; the names are those of the three APIs.
    parts = max(
        text.count("function_call_arguments.delta") // 2,
        text.count('"input_json_delta"'),
        text.count('"arguments"') if evidence.api == "chat" else 0,
    )
    require(parts > 2, "the arguments came in one part")
