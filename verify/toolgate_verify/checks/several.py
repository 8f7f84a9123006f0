"""Several calls in one answer, and calls with long arguments."""

from __future__ import annotations

from functools import partial

from ..asking.ask import Ask, User
from ..reading.answer import Answer
from ..registry import rule
from ..scenario import Evidence
from ..terms import Severity, Skipped, Suite, require
from ..tools.everyday import BOUNDS, LIGHT, NOTE
from ..tools.sets import LONG
from .calls import calls_same
from .common import calls_satisfy, of_answers, paired, some_calls

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
