"""Counters in Redis, exact across all gateways: two Lua scripts that Redis runs atomically.

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
import time
from typing import cast

from ..keys.limit_kinds import SLICES
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
    """`lease`: seconds after which a request without an update no longer counts as in flight."""

    def __init__(self, redis: SharedRedis, lease: float) -> None:
        self._redis = RedisBatch(redis)
        self._lease_ms = round(lease * 1000)
        self._logged: dict[str, float] = {}
        """When each reason was logged last, by the monotonic clock."""

    async def admit(self, request: Reservation) -> None:
        limits = [-1 if each.limit is None else each.limit for each in request.amounts]
        numbers = [
            (limit, each.amount) for limit, each in zip(limits, request.amounts, strict=True)
        ]
        refused, request.wait_ms, *found = cast(
            list[int], await self._run(ADMIT, request, self._lease_ms, numbers)
        )
        for each, at in zip(request.amounts, range(0, len(found), 3), strict=True):
            each.used, each.reset_ms, each.period = found[at : at + 3]
        request.refused = request.amounts[refused - 1] if refused else None

    async def correct(self, correction: Reservation) -> None:
        numbers = [(each.amount, each.period) for each in correction.amounts]
        lease_ms = 0 if correction.ended else self._lease_ms
        reply = await self._run(UPDATE, correction, lease_ms, numbers)
        for wrong in cast(list[bytes | str], reply):
            self._log(wrong.decode(errors="replace") if isinstance(wrong, bytes) else wrong)

    async def _run(
        self, script: Script, given: Reservation, lease_ms: int, numbers: list[tuple[int, int]]
    ) -> object:
        """Return the reply to a command. `numbers`: what the script reads for each amount besides
        its window. Raises NoResponse, and CommandRefused, which is logged."""
        kinds = [each.kind for each in given.amounts]
        each = [
            (kind.window.type, kind.window.milliseconds, *more)
            for kind, more in zip(kinds, numbers, strict=True)
        ]
        keys = [kind.redis_key(given.key_id) for kind in kinds]
        # In one argument, because the client encodes each argument in Python.
        argument = json.dumps((given.request_id, lease_ms, SLICES, each))
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
