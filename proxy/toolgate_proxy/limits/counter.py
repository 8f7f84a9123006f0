"""What counting a request says, and how a minute is divided: shared by Redis' scripts and Python.

A window is cut into 60 slices. What happened in a slice counts until the window has passed since
its end, so that in no window, wherever it begins, can there be more than the limit; the price is
that capacity comes back up to one slice (a second) late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from ..keys.key import Limits

WINDOW_MS = 60_000
SLICES = 60
DAY_MS = 86_400_000

Limit = Literal["requests", "tokens", "parallel_requests", "tokens_per_day"]
LIMITS: tuple[Limit, ...] = ("requests", "tokens", "parallel_requests", "tokens_per_day")
"""In the order in which they are checked."""


@dataclass(frozen=True)
class LimitUsage:
    """Of one limit: what is used of it, and the milliseconds until nothing of that counts."""

    used: int
    reset_ms: int


@dataclass(frozen=True)
class AdmissionResult:
    """One request was let in, or refused by a limit; the uses are those after it."""

    requests: LimitUsage
    tokens: LimitUsage
    parallel: int
    tokens_today: int
    slice: int
    """Where its tokens were set aside."""
    day: int
    """Days since 1970-01-01 UTC."""
    refused: Limit | None = None
    wait_ms: int = 0
    """After which it would be let in if nobody else came; -1 for never: it is over the limit alone.
    0 where only a request's end will tell."""


@dataclass(frozen=True)
class AdmissionRequest:
    """A request that wants in."""

    key_id: str
    limits: Limits
    request_id: str
    tokens: int
    """Set aside for it."""


@dataclass(frozen=True)
class UsageUpdate:
    """News of a request that was let in."""

    key_id: str
    request_id: str
    tokens: int
    """Beyond those counted so far; below zero where more had been set aside."""
    slice: int
    """Where its tokens were set aside; 0 for a key without limits, of which days are counted and no
    minutes."""
    day: int
    parallel: bool
    """It is counted as in flight."""
    ended: bool


class Unavailable(Exception):
    """The counts can't be reached."""


class Counter(Protocol):
    async def admit(self, ask: AdmissionRequest) -> AdmissionResult:
        """Checks every limit and counts the request, or counts nothing. Raises Unavailable."""

    async def note(self, note: UsageUpdate) -> None:
        """Raises Unavailable."""
