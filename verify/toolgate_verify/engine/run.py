"""Runs the scenarios of checks and judges their answers, and estimates what that costs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ..check import Check
from ..exchange import Exchange, Request
from ..reading.answer import Unreadable
from ..scenario import Evidence, Scenario
from ..terms import Failed, Refused, Skipped, Verdict
from .client import BudgetSpent, Client

NO_KEY = "not run: it needs a run with a key"
NOT_RUN = "not run"
NOT_SENT = "not run: the limit of requests (--max-requests) was reached"
Progress = Callable[[Scenario], None]
CHARACTERS_PER_TOKEN = 4


@dataclass
class Result:
    check: Check
    verdict: Verdict
    message: str = ""
    exchange: Exchange | None = None
    """The exchange that shows a failure."""
    runs: int = 1
    """How often the scenario ran. 2 if a failure was confirmed, or not."""


@dataclass
class Run:
    results: list[Result] = field(default_factory=list)
    evidence: dict[str, Evidence] = field(default_factory=dict)
    """By the name of the scenario."""
    again: dict[str, Evidence] = field(default_factory=dict)
    """The answers of scenarios that ran a second time, alone."""
    seconds: float = 0.0
    requests: int = 0


async def run(client: Client, checks: Sequence[Check], progress: Progress | None = None) -> Run:
    """Run each scenario once, those that are `alone` after all others, and confirm failures that
    rounding may cause."""
    result = Run()
    scenarios = scenarios_of(checks)

    async def one(scenario: Scenario) -> None:
        result.evidence[scenario.name] = await perform(client, scenario)
        if progress is not None:
            progress(scenario)

    began = asyncio.get_running_loop().time()
    await _limited([s for s in scenarios if not s.alone], one, client.concurrency)
    for scenario in scenarios:
        if scenario.alone:
            await one(scenario)
    result.results = judge_all(checks, result.evidence)
    await _confirm(client, result)
    result.seconds = asyncio.get_running_loop().time() - began
    result.requests = client.sent
    return result


def scenarios_of(checks: Iterable[Check]) -> list[Scenario]:
    """Return the scenarios of the checks, each once."""
    scenarios: dict[str, Scenario] = {}
    for check in checks:
        scenarios.setdefault(check.scenario.name, check.scenario)
    return [*scenarios.values()]


async def perform(client: Client, scenario: Scenario, *, one_by_one: bool = False) -> Evidence:
    """Return the answers of a scenario. Empty if its end would exceed the limit of requests."""
    evidence = Evidence(scenario)
    if not client.target.key and any(each.key is not None for each in scenario.requests):
        return Evidence(scenario, reason=NO_KEY)
    groups: list[Sequence[Request]] = [scenario.requests]
    followed = False
    try:
        while groups:
            group = groups.pop(0)
            if one_by_one and len(group) > 1:
                groups = [[each] for each in group] + groups
                continue
            evidence.exchanges += await _send_all(client, scenario, group)
            if not groups and not followed and scenario.follow is not None:
                followed = True
                groups += _follow(evidence)
    except* BudgetSpent:
        evidence.exchanges, evidence.reason = [], NOT_SENT
    return evidence


async def _send_all(
    client: Client, scenario: Scenario, requests: Sequence[Request]
) -> list[Exchange]:
    async with asyncio.TaskGroup() as group:
        sent = [
            group.create_task(client.send(scenario, each, at_once=scenario.alone))
            for each in requests
        ]
    return [task.result() for task in sent]


def _follow(evidence: Evidence) -> list[Sequence[Request]]:
    """Return the further requests. None if the first answers cannot be used, as checks state."""
    assert evidence.scenario.follow is not None
    try:
        requests = evidence.scenario.follow(evidence)
    except (Failed, Refused, Skipped):
        return []
    return [[each] for each in requests] if evidence.scenario.in_order else [requests]


def judge_all(checks: Iterable[Check], evidence: dict[str, Evidence]) -> list[Result]:
    return [judge(check, evidence.get(check.scenario.name)) for check in checks]


def judge(check: Check, evidence: Evidence | None) -> Result:
    """Return the verdict of one check on the answers."""
    if evidence is None or not evidence.exchanges:
        reason = "" if evidence is None else evidence.reason
        return Result(check, Verdict.SKIP, reason or NOT_RUN)
    evidence.shown = None
    try:
        check.judge(evidence)
    except Failed as error:
        return _result(check, Verdict.FAIL, error, evidence)
    except Refused as error:
        return _result(check, Verdict.REFUSED, error, evidence)
    except Skipped as error:
        return _result(check, Verdict.SKIP, error, evidence)
    except (Unreadable, KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        # The answer lacks a member that the judgement reads.
        problem = Failed(f"the answer cannot be read: {type(error).__name__}: {error}")
        return _result(check, Verdict.FAIL, problem, evidence)
    return Result(check, Verdict.PASS)


def _result(check: Check, verdict: Verdict, error: Exception, evidence: Evidence) -> Result:
    return Result(check, verdict, str(error), evidence.shown)


async def _confirm(client: Client, run: Run) -> None:
    """Run the scenarios of failed checks with `confirm` again, one request after another."""
    for scenario in scenarios_of(result.check for result in _unconfirmed(run)):
        evidence = await perform(client, scenario, one_by_one=True)
        if evidence.exchanges:
            run.again[scenario.name] = evidence
    judge_again(run)


def judge_again(run: Run) -> None:
    """Replace results that a second run of the scenario has to confirm by those of that run."""
    for result in _unconfirmed(run):
        evidence = run.again.get(result.check.scenario.name)
        if evidence is not None:
            second = judge(result.check, evidence)
            result.runs, result.verdict, result.message = 2, second.verdict, second.message
            result.exchange = second.exchange


def _unconfirmed(run: Run) -> list[Result]:
    return [r for r in run.results if r.verdict == Verdict.FAIL and r.check.confirm]


async def _limited(
    scenarios: Sequence[Scenario], one: Callable[[Scenario], Awaitable[None]], width: int
) -> None:
    """Run the scenarios in order, a few at a time, so that a limit of requests ends with whole
    scenarios."""
    waiting = iter(scenarios)

    async def worker() -> None:
        for scenario in waiting:
            await one(scenario)

    async with asyncio.TaskGroup() as group:
        for _ in range(width):
            group.create_task(worker())


@dataclass(frozen=True)
class Estimate:
    checks: int
    scenarios: int
    requests: int
    """The maximum, without repetitions that confirm a failure."""
    prompt_tokens: int
    """By the length of the bodies."""
    output_tokens: int
    """The maximum."""


def estimate(checks: Sequence[Check]) -> Estimate:
    scenarios = scenarios_of(checks)
    sent = [request for scenario in scenarios for request in scenario.requests]
    followers = sum(scenario.followers for scenario in scenarios)
    largest = [
        max((each.max_tokens for each in scenario.requests), default=0) * scenario.followers
        for scenario in scenarios
    ]
    return Estimate(
        len(checks),
        len(scenarios),
        len(sent) + followers,
        sum(len(request.content) for request in sent) // CHARACTERS_PER_TOKEN + 40 * followers,
        sum(request.max_tokens for request in sent) + sum(largest),
    )
