"""Interface of the counters, which count requests and tokens for the limits of keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..keys.key import Limits
from ..keys.limit_kinds import KINDS, LimitKind, Tokens


@dataclass(frozen=True)
class Cost:
    """What a request adds to one counter of its key."""

    kind: LimitKind
    limit: int | None
    """None: it is counted without a limit."""
    amount: int


@dataclass(frozen=True)
class AdmissionRequest:
    """A request to be admitted under the limits of its key."""

    key_id: str
    request_id: str
    costs: tuple[Cost, ...]


@dataclass(frozen=True)
class LimitUsage:
    """Use of one limit after a request was admitted or refused."""

    used: int
    reset_ms: int = 0
    """Milliseconds until none of it counts any more; 0 if nothing is used, or for requests in
    flight."""
    period: int = 0
    """Slice of a sliding window, or number of a fixed window, that the request was counted in."""


@dataclass(frozen=True)
class AdmissionResult:
    usage: dict[str, LimitUsage]
    """By the names of the kinds."""
    refused: Cost | None = None
    """The first limit that was exceeded; None for an admitted request."""
    wait_ms: int = 0
    """Milliseconds until the request would be admitted if no other came; -1 if it exceeds the limit
    alone; 0 if that depends on when other requests end."""


@dataclass(frozen=True)
class Change:
    """A correction of what an admitted request was counted with."""

    kind: LimitKind
    amount: int
    """Below 0 if less was used than reserved. 0 for requests in flight, whose lease is renewed, or
    released if the request has ended."""
    period: int
    """The period that the request was counted in."""


@dataclass(frozen=True)
class UsageUpdate:
    """What has changed since a request was admitted or updated last."""

    key_id: str
    request_id: str
    changes: tuple[Change, ...]
    ended: bool


class Unavailable(Exception):
    """The counter did not count. `reason`: for clients and logs."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class NoResponse(Unavailable):
    """The counter did not respond, so it is not known whether it has counted."""

    def __init__(self) -> None:
        super().__init__("Redis does not respond")


class CommandRefused(Unavailable):
    """Redis responded with an error: a counter of a wrong type, out of memory, read only …

    `detail`: the error, for the log. It can contain names of entries, which clients must not see.
    """

    def __init__(self, detail: str) -> None:
        super().__init__("Redis refused the command")
        self.detail = detail


class Counter(Protocol):
    async def admit(self, request: AdmissionRequest) -> AdmissionResult:
        """Count the request if all limits allow it, and nothing otherwise. Raises Unavailable."""

    async def update(self, update: UsageUpdate) -> None:
        """Correct the counters. Raises Unavailable."""


def costs(limits: Limits, tokens: Tokens) -> tuple[Cost, ...]:
    """Return what a request with that many tokens costs a key that has limits."""
    return tuple(
        Cost(kind, limit, kind.unit.amount(tokens))
        for kind in KINDS
        if (limit := limits.of(kind)) is not None or kind.counted_for != "keys with this limit"
    )
