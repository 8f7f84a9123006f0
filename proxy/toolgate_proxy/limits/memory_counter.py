"""The same counts kept by one process: where there is no Redis, or where it fails open.

admit.lua and note.lua say the same in Lua; a test holds the two to each other.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from .counter import (
    DAY_MS,
    SLICES,
    WINDOW_MS,
    AdmissionRequest,
    AdmissionResult,
    Limit,
    LimitUsage,
    UsageUpdate,
)

KEYS = 10_000
"""Keys remembered; the one that has been quiet longest is forgotten first."""


@dataclass
class _Counts:
    requests: dict[int, int] = field(default_factory=dict)
    tokens: dict[int, int] = field(default_factory=dict)
    in_flight: set[str] = field(default_factory=set)
    days: dict[int, int] = field(default_factory=dict)


class MemoryCounter:
    def __init__(self, window_ms: int = WINDOW_MS, clock: Callable[[], float] = time.time) -> None:
        self._window = window_ms
        self._width = window_ms / SLICES
        self._clock = clock
        self._keys: OrderedDict[str, _Counts] = OrderedDict()

    async def admit(self, ask: AdmissionRequest) -> AdmissionResult:
        now = self._now()
        at, day = math.floor(now / self._width), now // DAY_MS
        counts, limits = self._counts(ask.key_id), ask.limits
        for slices in (counts.requests, counts.tokens):
            for began in [began for began in slices if began < at - SLICES]:
                del slices[began]
        asked, used = sum(counts.requests.values()), sum(counts.tokens.values())
        parallel, today = len(counts.in_flight), counts.days.get(day, 0)
        refused: Limit | None = None
        wait = 0.0
        if limits.rpm is not None and asked + 1 > limits.rpm:
            refused, wait = "requests", self._wait(counts.requests, limits.rpm, 1, now)
        elif limits.tpm is not None and used + ask.tokens > limits.tpm:
            refused, wait = "tokens", self._wait(counts.tokens, limits.tpm, ask.tokens, now)
        elif (
            limits.max_parallel_requests is not None and parallel + 1 > limits.max_parallel_requests
        ):
            refused = "parallel_requests"
        elif limits.tokens_per_day is not None and today + ask.tokens > limits.tokens_per_day:
            refused = "tokens_per_day"
            wait = -1 if ask.tokens > limits.tokens_per_day else (day + 1) * DAY_MS - now
        if refused is None:
            counts.requests[at] = counts.requests.get(at, 0) + 1
            counts.tokens[at] = counts.tokens.get(at, 0) + ask.tokens
            counts.days = {day: today + ask.tokens}
            if limits.max_parallel_requests is not None:
                counts.in_flight.add(ask.request_id)
        return AdmissionResult(
            requests=self._use(counts.requests, now),
            tokens=self._use(counts.tokens, now),
            parallel=len(counts.in_flight),
            tokens_today=counts.days.get(day, 0),
            slice=at,
            day=day,
            refused=refused,
            wait_ms=math.ceil(wait),
        )

    async def note(self, note: UsageUpdate) -> None:
        counts = self._counts(note.key_id)
        at = math.floor(self._now() / self._width)
        if note.tokens > 0 and note.slice:
            counts.tokens[at] = counts.tokens.get(at, 0) + note.tokens
        elif note.slice in counts.tokens:
            counts.tokens[note.slice] += note.tokens
        counts.days[note.day] = counts.days.get(note.day, 0) + note.tokens
        counts.days.pop(note.day - 2, None)
        if note.ended:
            counts.in_flight.discard(note.request_id)

    def _now(self) -> int:
        return math.floor(self._clock() * 1000)

    def _counts(self, key_id: str) -> _Counts:
        counts = self._keys.setdefault(key_id, _Counts())
        self._keys.move_to_end(key_id)
        if len(self._keys) > KEYS:
            self._keys.popitem(last=False)
        return counts

    def _leaves(self, began: int, now: int) -> float:
        return (began + 1) * self._width + self._window - now

    def _wait(self, slices: dict[int, int], limit: int, wanted: int, now: int) -> float:
        if wanted > limit:
            return -1
        left = sum(slices.values())
        for began, count in sorted(slices.items()):
            left -= count
            if count > 0 and left + wanted <= limit:
                return self._leaves(began, now)
        return 0

    def _use(self, slices: dict[int, int], now: int) -> LimitUsage:
        last = max((began for began, count in slices.items() if count > 0), default=None)
        reset = 0 if last is None else math.ceil(max(0, self._leaves(last, now)))
        return LimitUsage(sum(slices.values()), reset)
