"""What one request counts for the limits of its key, and the interface of the counters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from ..keys.key import Limits
from ..keys.limit_kinds import KINDS, LimitKind, Tokens


@dataclass(slots=True)
class Amount:
    """What a request counts for one limit of its key, and what the counter of the limit has."""

    kind: LimitKind
    limit: int | None
    """None: it is counted without a limit."""
    amount: int
    """Of a correction: below 0 if less was used than reserved."""
    period: int = 0
    """Slice of a sliding window, or number of a fixed window, that it is counted in."""
    used: int = 0
    """All that the counter has after the request was admitted or refused."""
    reset_ms: int = 0
    """Milliseconds until none of it counts any more; 0 if nothing is used, or for requests in
    flight."""


@dataclass(slots=True)
class Reservation:
    """What a request counts for all limits of its key: at its admission, so far, or in one
    correction of what it was counted with."""

    key_id: str
    request_id: str
    amounts: tuple[Amount, ...]
    ended: bool = False
    """The request has ended. A correction then releases its place among the requests in flight,
    which it renews otherwise."""
    refused: Amount | None = None
    """The first limit that was exceeded, so that nothing was counted."""
    wait_ms: int = 0
    """Milliseconds until the request would be admitted if no other came; -1 if it exceeds the limit
    alone; 0 if that depends on when other requests end."""

    def add(self, amounts: Iterable[Amount], sign: int = 1) -> None:
        """Add what was counted in addition."""
        more = {each.kind.name: sign * each.amount for each in amounts}
        for each in self.amounts:
            each.amount += more.get(each.kind.name, 0)

    def correction(self, used: Tokens) -> tuple[Amount, ...]:
        """Return what the counters lack. `used`: the tokens so far. Before the request has ended,
        what was reserved is not returned."""
        made: list[Amount] = []
        for each in self.amounts:
            in_flight = each.kind.window.type == "in_flight"
            lacking = 0 if in_flight else each.kind.unit.amount(used) - each.amount
            if in_flight or lacking > 0 or (lacking and self.ended):
                made.append(Amount(each.kind, None, lacking, each.period))
        return tuple(made)


class Unavailable(Exception):
    """The counter did not count."""

    reason = ""
    """For clients and logs."""


class NoResponse(Unavailable):
    """The counter did not respond, so it is not known whether it has counted."""

    reason = "Redis does not respond"


class CommandRefused(Unavailable):
    """Redis responded with an error: a counter of a wrong type, out of memory, read only … Its text
    can contain names of entries, which clients must not see."""

    reason = "Redis refused the command"


class Counter(Protocol):
    async def admit(self, request: Reservation) -> None:
        """Count the request if all limits allow it, and nothing otherwise. Note in it which limit
        refused, and what each counter has. Raises Unavailable."""

    async def correct(self, correction: Reservation) -> None:
        """Add the amounts to the counters. Raises Unavailable."""


def amounts(limits: Limits, tokens: Tokens) -> tuple[Amount, ...]:
    """Return what a request with that many tokens counts for a key that has limits."""
    return tuple(
        Amount(kind, limit, kind.unit.amount(tokens))
        for kind in KINDS
        if (limit := limits.of(kind)) is not None or kind.counted_for != "keys with this limit"
    )
