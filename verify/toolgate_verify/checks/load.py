"""Load and cancellation: 32 requests at once stay apart, and a cancelled stream frees its slot."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ..asking import request
from ..asking.ask import Ask, User
from ..check import rule
from ..exchange import Request
from ..scenario import Evidence
from ..terms import Severity, Skipped, Suite, require
from ..tools.sets import tagged
from .common import arguments_of, sending, some_calls

AT_ONCE = 32
CANCELLED = 12


ASKS = [
    Ask(
        (User(f"Report the tag of request {number}."),),
        tools=(tagged(number),),
        choice="required",
        parallel=False,
        max_tokens=100,
        temperature=1,
        stream=bool(number % 2),
    )
    for number in range(AT_ONCE)
]
"""Each request has a tool whose only value is its own tag."""
LOAD = sending("load", lambda api: tuple(request(api, ask) for ask in ASKS), ASKS[0], alone=True)
_rule = partial(rule, scenario=LOAD, suite=Suite.FULL)


@_rule(
    "load.answered",
    "32 requests at once are answered",
    "A server answers requests that arrive at the same time, or refuses them with 429 or 503.",
    topic="errors",
)
def _answered(evidence: Evidence) -> None:
    for index in range(AT_ONCE):
        exchange = evidence.at(index)
        require(not exchange.problem, f"request {index}: {exchange.problem}")
        allowed = exchange.status in (200, 429, 503)
        require(allowed, f"request {index}: status {exchange.status}: {exchange.text[:120]}")


@_rule(
    "load.apart",
    "Answers under load belong to their requests",
    "An answer is that of its own request, whatever else is in flight.",
    topic="strict",
    severity=Severity.CRITICAL,
)
def _apart(evidence: Evidence) -> None:
    seen = 0
    for index in range(AT_ONCE):
        if evidence.at(index).status != 200:
            continue
        try:
            calls = some_calls(evidence.answer(index))
        except Skipped:
            continue
        for call in calls:
            wanted = {"tag": f"tag-{index:02}"}
            arguments = arguments_of(call)
            require(arguments == wanted, f"request {index} got {arguments} instead of {wanted}")
            seen += 1
    if not seen:
        raise Skipped("no request got a complete call")


@_rule(
    "load.ids",
    "IDs under load are unique",
    "The ID of an answer is unique.",
    topic="body",
)
def _ids(evidence: Evidence) -> None:
    ids: list[str] = []
    for index in range(AT_ONCE):
        if evidence.at(index).status == 200:
            ids.append(evidence.answer(index).id)
    require(len({*ids}) == len(ids), "two answers have one ID")


def _after(evidence: Evidence) -> tuple[Request, ...]:
    return (request(evidence.api, Ask(max_tokens=8)),) * 2


_LEFT = Ask(max_tokens=1500, stream=True)
CANCELLATION = sending(
    "cancel",
    lambda api: (replace(request(api, _LEFT), leave_after=2),) * CANCELLED,
    _LEFT,
    follow=_after,
    followers=2,
    alone=True,
)
"""Streams that the client leaves after two events, then two short requests."""


@rule(
    "cancel.slot_free",
    "Cancelled streams free their slots",
    "When a client disconnects, its request ends, and later requests are answered.",
    topic="stream",
    scenario=CANCELLATION,
    suite=Suite.FULL,
)
def _slot_free(evidence: Evidence) -> None:
    later = Evidence(evidence.scenario, evidence.exchanges[CANCELLED:])
    if not later.exchanges:
        raise Skipped("the requests after the cancelled ones were not sent")
    for exchange in later.exchanges:
        evidence.shown = exchange
        require(exchange.status == 200, f"status {exchange.status} {exchange.problem}")
    for answer in later.answers():
        require(answer.text or answer.reasoning, "the answer is empty")
