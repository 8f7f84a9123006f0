"""Required calls of strict tools: presence, arguments, IDs, finish reasons, streams."""

from __future__ import annotations

import json

from ..asking.ask import Ask, User
from ..reading.answer import Answer
from ..registry import rule
from ..scenario import Evidence
from ..terms import Failed, Severity, Skipped, Suite, require
from ..tools.everyday import BOUNDS, LIGHT, NOTE
from ..tools.sets import LONG
from .common import (
    arguments_of,
    check_call,
    complete_calls,
    judged,
    no_markup,
    paired,
    same,
    some_calls,
)

LIGHTS = (User("Switch on the light in the kitchen."),)
CALL = paired(
    "call",
    Ask(LIGHTS, tools=(LIGHT, NOTE), choice="required", parallel=False, max_tokens=300),
)
UNSTRICT = paired(
    "unstrict",
    Ask(LIGHTS, tools=(LIGHT,), strict=False, choice="required", parallel=False, max_tokens=300),
)
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
    Ask((User(LONG.prompt),), tools=(LONG,), choice="required", parallel=False, max_tokens=500),
)


@rule(
    "calls.arguments_json",
    "Arguments are a JSON object",
    "The arguments of a strict tool's call are JSON that the tool's schema describes.",
    topic="strict",
    scenario=CALL,
    severity=Severity.CRITICAL,
)
def _json(evidence: Evidence) -> None:
    judged(evidence, _objects)


@rule(
    "calls.arguments_valid",
    "Arguments satisfy the schema",
    "With `strict: true` the arguments of a call always satisfy the tool's schema.",
    topic="strict",
    scenario=CALL,
    severity=Severity.CRITICAL,
)
def _valid(evidence: Evidence) -> None:
    judged(evidence, lambda answer: _all_valid(evidence, answer))


@rule(
    "calls.no_duplicate_members",
    "Arguments have no member twice",
    "The names within an object are unique; parsers disagree about others.",
    topic="json_objects",
    scenario=CALL,
    severity=Severity.MINOR,
)
def _duplicates(evidence: Evidence) -> None:
    def judge(answer: Answer) -> None:
        for call in some_calls(answer):
            try:
                json.loads(call.arguments, object_pairs_hook=_unique)
            except KeyError as error:
                raise Failed(f"{error} twice in {call.arguments[:120]}") from error
            except ValueError:
                continue

    judged(evidence, judge)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made: dict[str, object] = {}
    for name, value in pairs:
        if name in made:
            raise KeyError(name)
        made[name] = value
    return made


@rule(
    "calls.id",
    "Each call has an ID",
    "A call has an ID, to which its result refers.",
    topic="calls",
    scenario=CALL,
)
def _ids(evidence: Evidence) -> None:
    judged(
        evidence,
        lambda answer: require(all(call.id for call in some_calls(answer)), "a call has no ID"),
    )


@rule(
    "calls.ids_fresh",
    "IDs of calls of two answers differ",
    "The ID of a call identifies it in the conversation.",
    topic="calls",
    scenario=CALL,
    severity=Severity.MINOR,
)
def _fresh(evidence: Evidence) -> None:
    first, second = some_calls(evidence.whole)[0].id, some_calls(evidence.streamed)[0].id
    require(first != second, f"calls of two answers have the ID {first!r}")


@rule(
    "calls.finish",
    "An answer with calls ends with the reason for calls",
    "An answer that ends with a call has the finish reason of calls.",
    topic="finish",
    scenario=CALL,
)
def _finish(evidence: Evidence) -> None:
    def judge(answer: Answer) -> None:
        if answer.cut:
            raise Skipped("the answer was cut")
        if answer.calls:
            require(answer.finish == "calls", f"calls and the finish reason {answer.finish!r}")

    judged(evidence, judge)


@rule(
    "calls.no_markup",
    "The markup of calls is not in the text",
    "Calls are in the field for calls; the text does not repeat their markup.",
    topic="calls",
    scenario=CALL,
)
def _markup(evidence: Evidence) -> None:
    judged(evidence, lambda answer: no_markup(answer.text))


@rule(
    "stream.calls_same",
    "Streamed and whole calls are equal at temperature 0",
    "The fragments of a call add up to the call that is sent without streaming.",
    topic="stream",
    scenario=CALL,
    severity=Severity.CRITICAL,
    confirm=True,
)
def _same(evidence: Evidence) -> None:
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


@rule(
    "stream.calls_same_finish",
    "Streamed and whole finish reasons of calls are equal",
    "A stream ends with the finish reason of the whole answer.",
    topic="finish",
    scenario=CALL,
    confirm=True,
)
def _same_finish(evidence: Evidence) -> None:
    same("finish reasons", evidence.whole.finish, evidence.streamed.finish)


@rule(
    "calls.unstrict_json",
    "Arguments are a JSON object without `strict`",
    "A required call of a tool that is not strict has arguments in JSON.",
    topic="calls",
    scenario=UNSTRICT,
)
def _unstrict_json(evidence: Evidence) -> None:
    judged(evidence, _objects)


@rule(
    "calls.unstrict_valid",
    "Arguments satisfy the schema without `strict`",
    "Without `strict`, arguments follow the schema as well as the model can (best effort).",
    topic="strict",
    scenario=UNSTRICT,
    severity=Severity.MINOR,
)
def _unstrict_valid(evidence: Evidence) -> None:
    judged(evidence, lambda answer: _all_valid(evidence, answer))


@rule(
    "parallel.valid",
    "Each of several calls satisfies its schema",
    "With several calls, each satisfies the schema of its tool.",
    topic="parallel",
    scenario=SEVERAL,
    severity=Severity.CRITICAL,
)
def _several_valid(evidence: Evidence) -> None:
    judged(evidence, lambda answer: _all_valid(evidence, answer))


@rule(
    "parallel.ids",
    "Several calls have different IDs",
    "Each call of an answer has an ID of its own.",
    topic="parallel",
    scenario=SEVERAL,
    severity=Severity.CRITICAL,
)
def _several_ids(evidence: Evidence) -> None:
    def judge(answer: Answer) -> None:
        ids = [call.id for call in answer.calls]
        if len(ids) < 2:
            raise Skipped("the answer has fewer than two calls")
        require(len({*ids}) == len(ids), f"two calls have one ID: {ids}")

    judged(evidence, judge)


@rule(
    "parallel.same",
    "Several calls are equal, streamed and whole, at temperature 0",
    "The fragments of each call add up to the call that is sent without streaming.",
    topic="stream",
    scenario=SEVERAL,
    severity=Severity.CRITICAL,
    confirm=True,
)
def _several_same(evidence: Evidence) -> None:
    _same(evidence)


@rule(
    "long.valid",
    "Long arguments satisfy the schema",
    "The length of arguments does not affect their validity.",
    topic="strict",
    scenario=LENGTHY,
    severity=Severity.CRITICAL,
)
def _long_valid(evidence: Evidence) -> None:
    judged(evidence, lambda answer: _all_valid(evidence, answer))


@rule(
    "long.same",
    "Long arguments are equal, streamed and whole, at temperature 0",
    "The fragments of a call add up to the call that is sent without streaming.",
    topic="stream",
    scenario=LENGTHY,
    severity=Severity.CRITICAL,
    confirm=True,
)
def _long_same(evidence: Evidence) -> None:
    _same(evidence)


@rule(
    "long.parts",
    "Long arguments arrive in several parts",
    "Arguments are streamed as they are generated.",
    topic="stream",
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


def _all_valid(evidence: Evidence, answer: Answer) -> None:
    for call in some_calls(answer):
        check_call(call, evidence.ask.tools)


def _objects(answer: Answer) -> None:
    for call in some_calls(answer):
        arguments_of(call)
