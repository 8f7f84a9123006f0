"""Calls that the token limit cuts are never presented as complete."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps

from ..asking import pair
from ..asking.ask import Ask, User
from ..check import Judge, rule
from ..scenario import Evidence
from ..terms import Api, Failed, Refused, Severity, Skipped, require
from ..tools.sets import COPY, ENDLESS
from .common import check_call, no_markup, same_finish, sending

_STRICT = Ask(
    (User(ENDLESS.prompt),), tools=(ENDLESS,), choice="required", parallel=False, max_tokens=60
)
_COPY = replace(_STRICT, turns=(User(COPY.prompt),), tools=(COPY,), max_tokens=120)


CUT = sending("cut", lambda api: pair(api, _STRICT) + pair(api, _COPY), _STRICT)
"""Two requests, each whole and streamed. No call of the first one fits the limit, so a server may
refuse it. The second one's schema allows a call that fits."""


def of_cut(judge: Judge) -> Judge:
    """Judges the first request, or the second one if the server refused the first."""

    @wraps(judge)
    def judged(evidence: Evidence) -> None:
        try:
            judge(evidence)
        except Refused:
            scenario = replace(evidence.scenario, ask=_COPY)
            second = Evidence(scenario, evidence.exchanges[2:])
            try:
                judge(second)
            finally:
                evidence.shown = second.shown

    return judged


@rule(
    "cut.finish",
    "A cut call has the finish reason of the limit",
    "An answer that reaches the token limit is marked as cut, also inside a call.",
    topic="finish",
    scenario=CUT,
    severity=Severity.CRITICAL,
)
@of_cut
def _finish(evidence: Evidence) -> None:
    for index in range(2):
        answer = evidence.answer(index)
        usage = answer.usage
        if usage is None or usage.completion < evidence.ask.max_tokens:
            raise Skipped("the answer did not reach the token limit")
        require(answer.finish == "length", f"{usage.completion} tokens and {answer.finish!r}")


@rule(
    "cut.not_complete",
    "A cut call is not presented as complete",
    "A call that clients execute is complete and satisfies its schema.",
    topic="calls",
    scenario=CUT,
    severity=Severity.CRITICAL,
)
@of_cut
def _complete(evidence: Evidence) -> None:
    for index in range(2):
        answer = evidence.answer(index)
        if answer.cut and evidence.api == Api.CHAT:
            continue  # chat completions only mark the answer
        for call in answer.calls:
            try:
                if call.complete:
                    check_call(call, evidence.ask.tools)
            except Failed as error:
                raise Failed(
                    f"a call that is not complete is marked as complete: {error}"
                ) from error
    _some_cut(evidence)


@rule(
    "cut.no_markup",
    "The text has no markup of the cut call",
    "The beginning of a call is not returned as text.",
    topic="calls",
    scenario=CUT,
)
@of_cut
def _markup(evidence: Evidence) -> None:
    for index in range(2):
        no_markup(evidence.answer(index).text)
    _some_cut(evidence)


@rule(
    "cut.same_finish",
    "Streamed and whole finish reasons of a cut call are equal",
    "A stream ends with the finish reason of the whole answer.",
    topic="finish",
    scenario=CUT,
    confirm=True,
)
@of_cut
def _same(evidence: Evidence) -> None:
    same_finish(evidence)
    _some_cut(evidence)


def _some_cut(evidence: Evidence) -> None:
    if not any(evidence.answer(index).cut for index in range(2)):
        raise Skipped("no answer was cut")
