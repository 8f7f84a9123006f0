"""Admits requests under the limits of their keys."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
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
from .lease import Lease, Leases
from .memory_counter import MemoryCounter
from .redis_counter import RedisCounter
from .reservation import Amount, Counter, Reservation, Unavailable, amounts, rate_limit_headers

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
        counted = amounts(key.limits, tokens) if key.limits.any else _unlimited()
        request, counter = Reservation(key.id, request_id, counted), self._shared or self._local
        lease = Lease(key, request, used, counter, self.leases, tokens)
        if headers is not None:
            lease.headers = headers
        if not key.limits.any:  # its use is recorded, without waiting for Redis
            return self.leases.hold(lease)
        # In a task of its own: Redis may have counted the request when its client leaves.
        admitting = asyncio.create_task(self._limited(lease, names))
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

    async def _limited(self, lease: Lease, names: RateLimitHeaders) -> Lease:
        await self._count(lease)
        lease.headers |= rate_limit_headers(lease.counted.amounts, names)
        if lease.counted.refused is not None:
            raise lease.refusal(lease.counted)
        return self.leases.hold(lease)

    async def _count(self, lease: Lease) -> None:
        """Count the request. Redis, which did not respond, may still admit it: its places are
        released in the next round."""
        request = lease.counted
        if self._shared is not None:
            try:
                await self._shared.admit(request)
                return
            except Unavailable as error:
                kinds = [each.kind for each in request.amounts]
                in_flight = [kind for kind in kinds if kind.window.type == "in_flight"]
                if places := tuple(Amount(kind, None, 0) for kind in in_flight):
                    left = Reservation(request.key_id, request.request_id, places, ended=True)
                    self.leases.hold(replace(lease, counted=left, used=Tokens))
                if not self._fails_open:
                    raise LimitsUnavailable(
                        f"The limits of this API key can't be checked because {error.reason}. Try "
                        "again shortly, or report this to the administrator of this gateway.",
                        retry_after=1,
                    ) from error
        lease.counter = self._local
        await self._local.admit(request)


def _unlimited() -> tuple[Amount, ...]:
    """Return what is counted for a key without limits."""
    now = int(time.time() * 1000)
    counted = [kind for kind in KINDS if kind.counted_for == "every key"]
    return tuple(Amount(kind, None, 0, now // kind.window.milliseconds) for kind in counted)


async def _give_back(admitting: asyncio.Task[Lease]) -> None:
    """Settle a request whose client left while it was admitted."""
    with suppress(ToolgateError):
        await (await admitting).settle()
