"""Lets requests in under the limits of their keys, and settles what they used."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from toolgate_core.errors import LimitsUnavailable

from ..keys.key import Key
from ..keys.metrics import REDIS_BREAKER
from ..redis.client import SharedRedis
from ..settings import Settings
from .counter import DAY_MS, AdmissionRequest, AdmissionResult, Counter, LimitUsage, Unavailable
from .headers import headers, refusal
from .memory_counter import MemoryCounter
from .metrics import LIMITED
from .redis_counter import RedisCounter
from .reservations import Reservation, Reservations

FIRST_CONNECTION = 2.0
"""Seconds that a starting gateway waits for Redis before it takes requests."""
_NOTHING = LimitUsage(0, 0)


@dataclass(frozen=True)
class Admission:
    entry: Reservation
    headers: dict[str, str]


class Limiter:
    """Counts in Redis where the settings name one, else for this process alone."""

    def __init__(self, settings: Settings) -> None:
        self._open = settings.limits_without_redis == "open"
        self._local = MemoryCounter()
        self._redis: SharedRedis | None = None
        self._shared: Counter | None = None
        if settings.redis_url is not None:
            meanwhile = "limits are kept per process" if self._open else "limited keys are refused"
            self._redis = SharedRedis(
                settings.redis_url,
                settings.limit_timeout,
                meanwhile,
                REDIS_BREAKER,
            )
            self._shared = RedisCounter(self._redis, settings.limit_lease)
        self.reservations = Reservations(settings.limit_lease)

    async def admit(
        self, key: Key, request_id: str, tokens: int, used: Callable[[], int]
    ) -> Admission:
        """Raises RateLimited, and LimitsUnavailable where it fails closed."""
        if not key.limits.any:
            return self._unlimited(key, request_id, used)
        ask = AdmissionRequest(key.id, key.limits, request_id, tokens)
        counted, counter = await self._count(ask)
        told = headers(key, counted)
        if counted.refused is not None:
            LIMITED.labels(counted.refused).inc()
            error = refusal(key, ask, counted)
            error.headers = told
            raise error
        parallel = key.limits.max_parallel_requests is not None
        entry = self.reservations.open(key.id, request_id, counted, tokens, parallel, used, counter)
        return Admission(entry, told)

    async def started(self) -> None:
        """Waits for a connection to Redis, within bounds."""
        if self._redis is not None:
            try:
                async with asyncio.timeout(FIRST_CONNECTION):
                    await self._redis.connected()
            except TimeoutError:
                return

    async def aclose(self) -> None:
        await self.reservations.aclose()
        if self._redis is not None:
            await self._redis.aclose()

    @property
    def counted(self) -> Literal["fleet", "process", "unavailable"]:
        """Over all gateways, by this process alone, or not at all, at this moment."""
        if self._redis is None:
            return "process"
        if self._redis.available:
            return "fleet"
        return "process" if self._open else "unavailable"

    async def _count(self, ask: AdmissionRequest) -> tuple[AdmissionResult, Counter]:
        if self._shared is not None:
            try:
                return await self._shared.admit(ask), self._shared
            except Unavailable as error:
                if ask.limits.max_parallel_requests is not None:
                    self.reservations.abandon(ask.key_id, ask.request_id, self._shared)
                if not self._open:
                    raise LimitsUnavailable(
                        "The limits of this key can't be checked: Redis does not answer. Try again "
                        "shortly.",
                        retry_after=1,
                    ) from error
        return await self._local.admit(ask), self._local

    def _unlimited(self, key: Key, request_id: str, used: Callable[[], int]) -> Admission:
        """Waits for nobody; what it uses is counted for the record."""
        day = int(time.time() * 1000) // DAY_MS
        counted = AdmissionResult(_NOTHING, _NOTHING, parallel=0, tokens_today=0, slice=0, day=day)
        counter = self._shared or self._local
        entry = self.reservations.open(key.id, request_id, counted, 0, False, used, counter)
        return Admission(entry, {})
