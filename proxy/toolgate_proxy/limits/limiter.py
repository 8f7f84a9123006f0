"""Admits requests under the limits of their keys."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

from toolgate_core.errors import LimitsUnavailable, ToolgateError
from toolgate_core.metric_series import begin_at_zero

from ..background import in_background
from ..form import RateLimitHeaders
from ..keys.key import Key
from ..keys.limit_kinds import KINDS, Tokens
from ..metrics import KEYS_BREAKER, LIMITED
from ..redis_client import ADMISSION_TIMEOUT, SharedRedis
from ..settings import Settings
from .headers import rate_limit_headers
from .lease import Lease, Leases, refused
from .memory_counter import MemoryCounter
from .redis_counter import RedisCounter
from .reservation import Amount, Counter, Reservation, Unavailable, amounts

LEASE_SECONDS = 6.0
"""Time after which the active requests of a crashed gateway no longer count towards
`max_parallel_requests`. Leases are renewed three times in it."""
CONNECT_TIMEOUT = 2.0
"""Seconds that a starting gateway waits for Redis."""

begin_at_zero(LIMITED, [kind.label for kind in KINDS])


class Limiter:
    """Counts in Redis if TOOLGATE_REDIS_URL is set, otherwise in this process alone."""

    def __init__(self, settings: Settings, lease: float = LEASE_SECONDS) -> None:
        self._fails_open = settings.limits_without_redis == "open"
        self._local = MemoryCounter()
        self._redis: SharedRedis | None = None
        self._shared: Counter | None = None
        if settings.redis_url is not None:
            self._redis = SharedRedis(
                settings.redis_url,
                ADMISSION_TIMEOUT,
                "Each gateway process counts limits on its own until it responds"
                if self._fails_open
                else "Requests with limited API keys get 503 until it responds",
                KEYS_BREAKER,
            )
            self._shared = RedisCounter(self._redis, lease)
        self.leases = Leases(lease)

    async def admit(
        self,
        key: Key,
        request_id: str,
        tokens: Tokens,
        used: Callable[[], Tokens],
        headers: dict[str, str] | None = None,
        names: RateLimitHeaders = "openai",
    ) -> Lease:
        """Admit a request under the limits of its key, and add the rate-limit headers to `headers`,
        those of its response. `tokens`: to reserve; `used`: returns the tokens used so far;
        `names`: of the headers. Raises RateLimited, and LimitsUnavailable if the limiter fails
        closed."""
        headers = {} if headers is None else headers
        if not key.limits.any:
            return self._unlimited(key, request_id, used, headers)
        # In a task of its own: Redis may have counted the request when its client leaves.
        admitting = asyncio.create_task(
            self._limited(key, request_id, tokens, used, headers, names)
        )
        try:
            return await asyncio.shield(admitting)
        except asyncio.CancelledError:
            in_background(_give_back(admitting))
            raise

    async def started(self) -> None:
        """Wait for a connection to Redis, for at most CONNECT_TIMEOUT."""
        if self._redis is not None:
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    await self._redis.connected()
            except TimeoutError:
                return

    async def aclose(self) -> None:
        await self.leases.aclose()
        if self._redis is not None:
            await self._redis.aclose()

    @property
    def reached_redis(self) -> bool:
        """Whether Redis has responded since the start, or is not required."""
        return self._redis is None or self._fails_open or self._redis.has_responded

    @property
    def counted(self) -> Literal["fleet", "process", "unavailable"]:
        """Whether limits are now counted across all gateways, by this process alone, or not at
        all."""
        if self._redis is None:
            return "process"
        if self._redis.available:
            return "fleet"
        return "process" if self._fails_open else "unavailable"

    async def _limited(
        self,
        key: Key,
        request_id: str,
        tokens: Tokens,
        used: Callable[[], Tokens],
        headers: dict[str, str],
        names: RateLimitHeaders,
    ) -> Lease:
        request = Reservation(key.id, request_id, amounts(key.limits, tokens))
        counter = await self._count(key, request)
        headers |= rate_limit_headers(request.amounts, names)
        if request.refused is not None:
            raise refused(key, request, headers)
        return self.leases.hold(Lease(key, request, used, counter, self.leases, tokens, headers))

    async def _count(self, key: Key, request: Reservation) -> Counter:
        """Return the counter that counted the request."""
        if self._shared is not None:
            try:
                await self._shared.admit(request)
                return self._shared
            except Unavailable as error:
                self._abandon(key, request, self._shared)
                if not self._fails_open:
                    raise LimitsUnavailable(
                        f"The limits of this API key can't be checked because {error.reason}. Try "
                        "again shortly, or report this to the administrator of this gateway.",
                        retry_after=1,
                    ) from error
        await self._local.admit(request)
        return self._local

    def _abandon(self, key: Key, request: Reservation, counter: Counter) -> None:
        """Release the places of a request to which Redis did not respond in the next round: it may
        still be admitted there."""
        in_flight = [each for each in request.amounts if each.kind.window.type == "in_flight"]
        if places := tuple(Amount(each.kind, None, 0) for each in in_flight):
            left = Reservation(key.id, request.request_id, places, ended=True)
            self.leases.hold(Lease(key, left, Tokens, counter, self.leases))

    def _unlimited(
        self, key: Key, request_id: str, used: Callable[[], Tokens], headers: dict[str, str]
    ) -> Lease:
        """Record the use only, without waiting for Redis."""
        now = int(time.time() * 1000)
        recorded = tuple(
            Amount(kind, None, 0, now // kind.window.milliseconds)
            for kind in KINDS
            if kind.counted_for == "every key"
        )
        counted, counter = Reservation(key.id, request_id, recorded), self._shared or self._local
        return self.leases.hold(Lease(key, counted, used, counter, self.leases, headers=headers))


async def _give_back(admitting: asyncio.Task[Lease]) -> None:
    """Settle a request whose client left while it was admitted."""
    with suppress(ToolgateError):
        await (await admitting).settle()
