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
from .counter import (
    AdmissionRequest,
    AdmissionResult,
    CommandRefused,
    LimitUsage,
    NoResponse,
    UsageUpdate,
)

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

    async def admit(self, request: AdmissionRequest) -> AdmissionResult:
        keys: list[str] = []
        limits: list[tuple[str | int, ...]] = []
        for cost in request.costs:
            window, limit = cost.kind.window, -1 if cost.limit is None else cost.limit
            keys.append(cost.kind.redis_key(request.key_id))
            limits.append((window.type, window.milliseconds, limit, cost.amount))
        reply = await self._run(ADMIT, keys, request.request_id, self._lease_ms, limits)
        refused, wait, *numbers = cast(list[int], reply)
        return AdmissionResult(
            {
                cost.kind.name: LimitUsage(*numbers[at : at + 3])
                for cost, at in zip(request.costs, range(0, len(numbers), 3), strict=True)
            },
            request.costs[refused - 1] if refused else None,
            wait,
        )

    async def update(self, update: UsageUpdate) -> None:
        keys: list[str] = []
        changes: list[tuple[str | int, ...]] = []
        for change in update.changes:
            window = change.kind.window
            keys.append(change.kind.redis_key(update.key_id))
            changes.append((window.type, window.milliseconds, change.amount, change.period))
        lease = 0 if update.ended else self._lease_ms
        reply = await self._run(UPDATE, keys, update.request_id, lease, changes)
        for wrong in cast(list[bytes | str], reply):
            self._log(wrong.decode(errors="replace") if isinstance(wrong, bytes) else wrong)

    async def _run(
        self,
        script: Script,
        keys: list[str],
        request_id: str,
        lease_ms: int,
        each: list[tuple[str | int, ...]],
    ) -> object:
        """Return the reply to a command. `each`: what the script reads for each key. Raises
        NoResponse, and CommandRefused, which is logged."""
        # In one argument, because the client encodes each argument in Python.
        argument = json.dumps((request_id, lease_ms, SLICES, each))
        reply = await script.run(self._redis.run, keys, argument)
        if reply is None:
            raise NoResponse
        if isinstance(reply, Exception):
            refused = CommandRefused(str(reply).removesuffix(".")[:REASON_LENGTH])
            self._log(f"{refused.reason}: {refused.detail}")
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
