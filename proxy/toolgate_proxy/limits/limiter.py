"""Admits requests under the limits of their keys, and keeps their leases until what they used is
settled.

A background task updates all leases of this process three times per lease: it renews their places
among the requests in flight, and charges what they have used beyond their reservation, so that a
long response counts while it is generated. An update that failed because Redis did not respond is
sent again in the next round.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

from toolgate_core.errors import LimitsUnavailable, RateLimited, ToolgateError
from toolgate_core.metric_series import begin_at_zero

from ..background import finished, in_background
from ..keys.key import Key
from ..keys.limit_kinds import KINDS, NO_TOKENS, Tokens
from ..metrics import KEYS_BREAKER, LIMITED
from ..redis_client import ADMISSION_TIMEOUT, SharedRedis
from ..settings import Settings
from .counters import MemoryCounter, RedisCounter
from .estimate import files_beyond_estimate
from .reservation import (
    Amount,
    Counter,
    NoResponse,
    RateLimitHeaders,
    Reservation,
    Unavailable,
    amounts,
    rate_limit_headers,
    refusal,
)

logger = logging.getLogger(__name__)

ROUNDS_PER_LEASE = 3
CONCURRENT_UPDATES = 64
"""Requests updated in one exchange. One at a time, leases would expire during a round of many."""
MAX_PENDING = 100_000
"""Ended requests that are kept until they are settled. The oldest are dropped first."""
MAX_REFUSALS = 20
"""Updates of an ended request that Redis may refuse before it is dropped."""


@dataclass(eq=False)
class Lease:
    """An admitted request."""

    key: Key
    counted: Reservation
    """What the counters have of it."""
    used: Callable[[], Tokens]
    """Returns the tokens used so far."""
    counter: Counter
    """The counter that admitted it."""
    leases: Leases
    reserved: Tokens = NO_TOKENS
    headers: dict[str, str] = field(default_factory=dict)
    """The headers of the response."""
    has_files: bool = False
    """The texts of its files were admitted."""
    refusals: int = 0
    """Updates that Redis refused."""

    async def admit_prompt(self, prompt: int) -> None:
        """Reserve what a prompt has beyond its estimate. `prompt`: its tokens as a backend has
        counted them, or as they are estimated with the texts of files. Raise RateLimited."""
        if not self.key.limits.counts_output:
            return
        reserved = self.reserved
        needed = Tokens(max(reserved.input, prompt), reserved.output)
        if (extra := prompt - reserved.input) > 0:
            await finished(self._reserve(needed, Tokens(extra)))
        self.reserved = needed

    async def admit_files(self, texts: Sequence[str]) -> None:
        """Reserve what the texts of files have beyond their estimate. Later attempts of the request
        read them again. Raise RateLimited."""
        if not self.has_files:
            await self.admit_prompt(self.reserved.input + files_beyond_estimate(texts))
            self.has_files = True

    async def admit_tool_call(self) -> None:
        """Count one more call of a tool that the gateway runs. Raise RateLimited."""
        if self.key.limits.counts_tool_calls:
            one = Tokens(tool_calls=1)
            await finished(self._reserve(one, one))

    async def settle(self) -> None:
        """Settle what the ended request has used, and release its place among the requests in
        flight, also if the caller is cancelled meanwhile. May be called again when it is known
        better what was used."""
        await self.leases.settle(self)

    def refusal(self, request: Reservation) -> RateLimited:
        """Return the error for a part of the request that a limit refused."""
        assert request.refused is not None  # a limit refused it
        LIMITED.labels(request.refused.kind.label).inc()
        error = refusal(self.key.alias, request.refused, request.wait_ms)
        if error.retry_after is None:
            self.headers["x-should-retry"] = "false"  # read by OpenAI's SDKs
        return error

    async def _reserve(self, needed: Tokens, extra: Tokens) -> None:
        added = [
            Amount(kind, limit, kind.unit.amount(extra))
            for kind in KINDS
            if kind.unit.amount(extra) > kind.unit.amount(NO_TOKENS)
            and (limit := self.key.limits.of(kind)) is not None
        ]
        counted = self.counted
        request = Reservation(counted.key_id, counted.request_id, tuple(added))
        for amount in added:
            alone = Amount(amount.kind, amount.limit, amount.kind.unit.amount(needed))
            if amount.limit is not None and alone.amount > amount.limit:
                request.refused, request.wait_ms = alone, -1
                raise self.refusal(request)
        try:
            await self.counter.admit(request)
        except Unavailable:
            return  # it is charged when the counter responds
        if request.refused is not None:
            raise self.refusal(request)
        counted.add(added)
        if counted.ended:  # its client left meanwhile
            await self.settle()


class Leases:
    """Updates the leases of requests in flight, which end after `lease` seconds without it."""

    def __init__(self, lease: float) -> None:
        self._pause = lease / ROUNDS_PER_LEASE
        self._held: dict[str, Lease] = {}
        self._task: asyncio.Task[None] | None = None

    def hold(self, lease: Lease) -> Lease:
        """Update the lease from now on."""
        self._held[lease.counted.request_id] = lease
        if self._task is None:
            self._task = asyncio.create_task(self._update_forever())
        return lease

    async def settle(self, lease: Lease) -> None:
        """Settle the lease, now or in a later round."""
        lease.counted.ended = True
        self._held[lease.counted.request_id] = lease
        await finished(self._update(lease))

    @property
    def in_flight(self) -> int:
        return sum(not lease.counted.ended for lease in self._held.values())

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _update_forever(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            leases = list(self._held.values())
            for at in range(0, len(leases), CONCURRENT_UPDATES):
                batch = leases[at : at + CONCURRENT_UPDATES]
                if not all(await asyncio.gather(*map(self._update, batch))):
                    break  # Redis does not respond: one attempt a round is enough
            for request_id in list(self._held)[: max(0, len(self._held) - MAX_PENDING)]:
                del self._held[request_id]

    async def _update(self, lease: Lease) -> bool:
        """Return whether the counters responded."""
        counted, ended = lease.counted, lease.counted.ended
        if lacking := counted.correction(lease.used()):
            correction = Reservation(counted.key_id, counted.request_id, lacking, ended)
            # Before the exchange: a concurrent update must not charge the same again.
            counted.add(lacking)
            try:
                await lease.counter.correct(correction)
            except Unavailable as error:
                counted.add(lacking, -1)
                if isinstance(error, NoResponse):
                    return False
                lease.refusals += 1
                if ended and lease.refusals > MAX_REFUSALS:
                    self._held.pop(counted.request_id, None)
                return True
        if ended:
            self._held.pop(counted.request_id, None)
        return True


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
        `names`: of the headers. Raise RateLimited, and LimitsUnavailable if the limiter fails
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
        """Whether limits are counted across all gateways, by this process alone, or not at all."""
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
                        f"The limits of this API key cannot be checked because {error.reason}. "
                        "Send the request again, or report this to the gateway's administrator.",
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
