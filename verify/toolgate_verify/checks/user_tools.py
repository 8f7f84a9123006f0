"""Checks of what the user gives: their own tools (`--tools`), each called by name, with and without
`strict`, and recorded requests (`--samples`): valid calls, and answers with more than reasoning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..asking import PATHS
from ..asking.ask import Ask
from ..check import Check
from ..exchange import Request
from ..reading.answer import Answer
from ..scenario import Evidence, Scenario
from ..sources import TOPICS
from ..terms import Api, Severity, Suite, require
from ..tools.tool import Tool
from ..tools.user_tools import Sample
from .common import calls_satisfy, check_call, complete_calls
from .schemas import schema_scenario

PREFIX = f"{Api.CHAT}.sample."


def checks_of(tools: Sequence[Tool], apis: Iterable[Api]) -> list[Check]:
    checks: list[Check] = []
    for api in apis:
        for tool in tools:
            for family, strict in (("own_strict", True), ("own", False)):
                name = f"{family}.{tool.name}"
                checks.append(
                    Check(
                        f"{api}.{name}",
                        f"Your tool {tool.name}{', strict' if strict else ''}",
                        api,
                        Suite.QUICK,
                        Severity.CRITICAL,
                        tool.rule,
                        TOPICS["strict"][api],
                        schema_scenario(tool, strict=strict, name=name)(api),
                        calls_satisfy,
                    )
                )
    return checks


def checks_of_samples(samples: Sequence[Sample]) -> list[Check]:
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
            called = bool(answer.calls)
            require(called == sample.expected, f"a call was {'' if called else 'not '}made")

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
