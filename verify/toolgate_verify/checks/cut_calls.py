"""Calls that the token limit cuts are never presented as complete."""

from __future__ import annotations

from ..asking.ask import Ask, User
from ..reading.answer import Answer
from ..registry import rule
from ..scenario import Evidence
from ..terms import Failed, Severity, Skipped, require
from ..tools.sets import ENDLESS
from .common import check_call, no_markup, paired, same

CUT = paired(
    "cut",
    Ask(
        (User(ENDLESS.prompt),), tools=(ENDLESS,), choice="required", parallel=False, max_tokens=60
    ),
)


@rule(
    "cut.finish",
    "A cut call has the finish reason of the limit",
    "An answer that reaches the token limit is marked as cut, also inside a call.",
    topic="finish",
    scenario=CUT,
    severity=Severity.CRITICAL,
)
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
def _complete(evidence: Evidence) -> None:
    def judge(answer: Answer) -> None:
        marked = evidence.api != "chat"  # chat completions only mark the answer
        calls = [call for call in answer.calls if call.complete]
        if answer.cut and not marked:
            return
        for call in calls:
            try:
                check_call(call, evidence.ask.tools)
            except Failed as error:
                raise Failed(
                    f"a call that is not complete is marked as complete: {error}"
                ) from error

    for index in range(2):
        judge(evidence.answer(index))


@rule(
    "cut.no_markup",
    "The text has no markup of the cut call",
    "The beginning of a call is not returned as text.",
    topic="calls",
    scenario=CUT,
)
def _markup(evidence: Evidence) -> None:
    for index in range(2):
        no_markup(evidence.answer(index).text)


@rule(
    "cut.same_finish",
    "Streamed and whole finish reasons of a cut call are equal",
    "A stream ends with the finish reason of the whole answer.",
    topic="finish",
    scenario=CUT,
    confirm=True,
)
def _same(evidence: Evidence) -> None:
    same("finish reasons", evidence.whole.finish, evidence.streamed.finish)
