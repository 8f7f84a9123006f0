"""The counters of limits: in Redis, exact across all gateways, and in one process, for gateways
without Redis and for those that fail open. They count alike; a test compares them.

In Redis, two Lua scripts run atomically (admit.lua and update.lua).
`toolgate:limit:{<key id>}:<counter>`, with the counter's name from `LimitKind.counter`:

- sliding window: a hash, slice → amount;
- fixed window: a hash, number of the window → amount, and `last`: time of the last request, in ms
  since 1970, which is kept for 90 days;
- requests in flight: a sorted set, request id → expiry of its lease.

The scripts use Redis' clock, so the clocks of the gateways need not agree. A gateway renews the
leases of its requests. The leases of a gateway that was killed expire.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from ..keys.limit_kinds import SLICES, LimitKind, Window
from ..redis_client import RedisBatch, Script, SharedRedis
from .reservation import CommandRefused, NoResponse, Reservation

logger = logging.getLogger(__name__)

REASON_LENGTH = 300
LOG_SECONDS = 60.0
"""Least time between two log lines with the same reason."""
MAX_LOGGED = 1_000
"""Reasons that are remembered."""


ADMIT, UPDATE = (Script(__package__, name) for name in ("admit.lua", "update.lua"))


class RedisCounter:
    """Counts in Redis. A request counts as in flight for `lease` seconds after each update."""

    def __init__(self, redis: SharedRedis, lease: float) -> None:
        self._redis = RedisBatch(redis)
        self._lease_ms = round(lease * 1000)
        self._logged: dict[str, float] = {}
        """When each reason was logged last, by the monotonic clock."""

    async def admit(self, request: Reservation) -> None:
        numbers = [
            (-1 if each.limit is None else each.limit, each.amount) for each in request.amounts
        ]
        refused, request.wait_ms, *replies = cast(
            list[int], await self._run(ADMIT, request, self._lease_ms, numbers)
        )
        for amount, at in zip(request.amounts, range(0, len(replies), 3), strict=True):
            amount.used, amount.reset_ms, amount.period = replies[at : at + 3]
        request.refused = request.amounts[refused - 1] if refused else None

    async def correct(self, correction: Reservation) -> None:
        numbers = [(each.amount, each.period) for each in correction.amounts]
        lease_ms = 0 if correction.ended else self._lease_ms
        reply = await self._run(UPDATE, correction, lease_ms, numbers)
        for wrong in cast(list[bytes | str], reply):
            self._log(wrong.decode(errors="replace") if isinstance(wrong, bytes) else wrong)

    async def _run(
        self, script: Script, request: Reservation, lease_ms: int, numbers: list[tuple[int, int]]
    ) -> object:
        """Return the reply to a command. `numbers`: what the script reads for each amount besides
        its window. Raise NoResponse, and CommandRefused, which is logged."""
        kinds = [amount.kind for amount in request.amounts]
        windows = [
            (kind.window.type, kind.window.milliseconds, *more)
            for kind, more in zip(kinds, numbers, strict=True)
        ]
        keys = [kind.redis_key(request.key_id) for kind in kinds]
        # In one argument, because the client encodes each argument in Python.
        argument = json.dumps((request.request_id, lease_ms, SLICES, windows))
        reply = await script.run(self._redis.run, keys, argument)
        if reply is None:
            raise NoResponse
        if isinstance(reply, Exception):
            refused = CommandRefused(str(reply).removesuffix(".")[:REASON_LENGTH])
            self._log(f"{refused.reason}: {refused}")
            raise refused from reply
        return reply

    def _log(self, reason: str) -> None:
        now = time.monotonic()
        if now - self._logged.get(reason, -LOG_SECONDS) < LOG_SECONDS:
            return
        if len(self._logged) >= MAX_LOGGED:
            self._logged.clear()
        self._logged[reason] = now
        logger.error(
            "A request was not counted under the limits of its API key. %s.%s",
            reason,
            " Delete this entry of Redis." if "WRONGTYPE" in reason else "",
        )


MAX_KEYS = 10_000
"""Keys with counters; beyond that the least recently used key is dropped."""


@dataclass
class _WindowCounter:
    """What a key used of one limit. `now`: milliseconds since 1970."""

    window: Window
    counts: dict[int, int] = field(default_factory=dict)
    """By slice."""

    def usage(self, now: int) -> tuple[int, int, int]:
        """Return `used`, `reset_ms` and `period` of an Amount."""
        period = self._slice(now)
        self._forget(period)
        last = max((each for each, count in self.counts.items() if count > 0), default=None)
        reset = 0 if last is None else math.ceil(max(0, self._expiry(last) - now))
        return max(0, sum(self.counts.values())), reset, period

    def wait(self, limit: int, amount: int, now: int) -> float:
        """Return the milliseconds until that amount would be admitted."""
        used = sum(self.counts.values())
        for number, count in sorted(self.counts.items()):
            used -= count
            if count > 0 and used + amount <= limit:
                return self._expiry(number) - now
        return 0

    def add(self, amount: int, request_id: str, now: int) -> None:
        period = self._slice(now)
        self.counts[period] = self.counts.get(period, 0) + amount

    def change(self, amount: int, period: int, request_id: str, ended: bool, now: int) -> None:
        if amount > 0 and self.window.earlier:
            self.add(amount, request_id, now)  # used just now, whenever the request began
        elif period in self.counts or not self.window.earlier:
            self._forget(period)
            self.counts[period] = self.counts.get(period, 0) + amount

    def _forget(self, period: int) -> None:
        """Drop the slices that do not count in a period any more."""
        for number in [number for number in self.counts if number < period - self.window.earlier]:
            del self.counts[number]

    def _slice(self, now: int) -> int:
        return math.floor(now / self.window.slice_ms)

    def _expiry(self, period: int) -> float:
        return (period + 1 + self.window.earlier) * self.window.slice_ms


@dataclass
class _InFlight:
    requests: set[str] = field(default_factory=set)

    def usage(self, now: int) -> tuple[int, int, int]:
        return len(self.requests), 0, 0

    def wait(self, limit: int, amount: int, now: int) -> float:
        return 0

    def add(self, amount: int, request_id: str, now: int) -> None:
        self.requests.add(request_id)

    def change(self, amount: int, period: int, request_id: str, ended: bool, now: int) -> None:
        if ended:
            self.requests.discard(request_id)


class MemoryCounter:
    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._keys: OrderedDict[str, dict[str, _WindowCounter | _InFlight]] = OrderedDict()
        """By key id and name of the limit's kind."""

    async def admit(self, request: Reservation) -> None:
        now = self._now()
        counters = [self._counter(request.key_id, amount.kind) for amount in request.amounts]
        request.refused, request.wait_ms = None, 0
        for amount, counter in zip(request.amounts, counters, strict=True):
            amount.used, amount.reset_ms, amount.period = counter.usage(now)
            if amount.limit is None or request.refused is not None:
                continue
            if amount.used + amount.amount > amount.limit:
                request.refused = amount
                too_large = amount.amount > amount.limit
                wait = -1 if too_large else counter.wait(amount.limit, amount.amount, now)
                request.wait_ms = math.ceil(wait)
        if request.refused is None:
            for amount, counter in zip(request.amounts, counters, strict=True):
                counter.add(amount.amount, request.request_id, now)
                amount.used, amount.reset_ms, amount.period = counter.usage(now)

    async def correct(self, correction: Reservation) -> None:
        now = self._now()
        for amount in correction.amounts:
            self._counter(correction.key_id, amount.kind).change(
                amount.amount, amount.period, correction.request_id, correction.ended, now
            )

    def _now(self) -> int:
        return math.floor(self._clock() * 1000)

    def _counter(self, key_id: str, kind: LimitKind) -> _WindowCounter | _InFlight:
        counters = self._keys.setdefault(key_id, {})
        self._keys.move_to_end(key_id)
        if len(self._keys) > MAX_KEYS:
            self._keys.popitem(last=False)
        if kind.name not in counters:
            in_flight = kind.window.type == "in_flight"
            counters[kind.name] = _InFlight() if in_flight else _WindowCounter(kind.window)
        return counters[kind.name]
