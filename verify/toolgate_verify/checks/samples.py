"""Checks of recorded requests (`--samples`): valid calls, and answers with more than reasoning."""

from __future__ import annotations

from collections.abc import Sequence

from ..asking import PATHS
from ..asking.ask import Ask
from ..check import Check
from ..exchange import Request
from ..reading.answer import Answer
from ..scenario import Evidence, Scenario
from ..sources import TOPICS
from ..terms import Api, Severity, Suite, require
from ..tools.samples import Sample
from .common import check_call, complete_calls

PREFIX = f"{Api.CHAT}.sample."


def checks_of(samples: Sequence[Sample]) -> list[Check]:
    return [_check(sample) for sample in samples]


def _check(sample: Sample) -> Check:
    name = f"{PREFIX}{sample.number:05}"
    ask = Ask(tools=sample.tools)
    scenario = Scenario(name, Api.CHAT, (Request(PATHS[Api.CHAT], sample.body),), ask)

    def judge(evidence: Evidence) -> None:
        answer = evidence.answer(0)
        for call in complete_calls(answer):
            check_call(call, sample.tools)
        if not answer.cut:
            wanted = "calls" if answer.calls else "stop"
            require(answer.finish == wanted, f"{len(answer.calls)} calls and {answer.finish!r}")
            require(not only_reasoning(answer), "the answer is only reasoning")
        if sample.expected is not None:
            found = bool(answer.calls)
            require(found == sample.expected, f"a call was {'' if found else 'not '}made")

    return Check(
        name,
        f"Line {sample.number} of the samples",
        Api.CHAT,
        Suite.QUICK,
        Severity.CRITICAL,
        "Calls satisfy their schemas, and the finish reason tells calls from text.",
        TOPICS["calls"][Api.CHAT],
        scenario,
        judge,
    )


def only_reasoning(answer: Answer) -> bool:
    return bool(answer.reasoning) and not answer.text and not answer.calls and not answer.cut
