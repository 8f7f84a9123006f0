"""Admits requests under the limits of their keys, and settles what they used."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from toolgate_core.errors import LimitsUnavailable, RateLimited, ToolgateError
from toolgate_core.metric_series import begin_at_zero

from ..background import finished, in_background
from ..context import RequestContext
from ..form import RateLimitHeaders
from ..keys.key import Key
from ..keys.limit_kinds import KINDS, Tokens
from ..limit_lease import Lease
from ..metrics import KEYS_BREAKER, LIMITED
from ..redis_client import ADMISSION_TIMEOUT, SharedRedis
from ..settings import Settings
from .counter import AdmissionRequest, AdmissionResult, Cost, Counter, Unavailable, costs
from .estimate import estimate, files_beyond_estimate
from .headers import headers, refusal
from .memory_counter import MemoryCounter
from .redis_counter import RedisCounter
from .reservations import Charge, Reservation, Reservations, charges

LEASE_SECONDS = 6.0
"""Time after which the active requests of a crashed gateway no longer count towards
`max_parallel_requests`. Leases are renewed three times in it."""
OUTPUT_ESTIMATE = 1024
"""Tokens reserved for the response to a request without a maximum. What was too much is given back
at its end."""
CONNECT_TIMEOUT = 2.0
"""Seconds that a starting gateway waits for Redis."""

begin_at_zero(LIMITED, [kind.label for kind in KINDS])


@dataclass(frozen=True)
class Admission:
    """An admitted request, and the rate-limit headers of its response."""

    reservation: Reservation
    headers: dict[str, str]


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
        self.reservations = Reservations(lease)

    async def reserve(
        self, context: RequestContext, body: Mapping[str, Any], *, output: bool = True
    ) -> None:
        """Admit a request under the limits of its key, reserve tokens for it, and set the
        rate-limit headers. `body`: as the client sent it; `output`: whether the response has output
        tokens. Raises RateLimited and LimitsUnavailable."""
        key = context.key
        if key is None:  # the master key has no limits
            return
        if context.admitted:
            return
        if key.limits.any:
            context.reserved_tokens = estimate(body, key.limits, OUTPUT_ESTIMATE, output=output)
        try:
            admission = await self.admit(
                key,
                context.call_id or "",
                context.reserved_tokens,
                context.used_tokens,
                context.rate_limits,
            )
        except RateLimited as error:
            _note_refusal(context, error)
            raise
        context.admitted = True
        context.extra_headers |= admission.headers
        reservation = admission.reservation

        async def admit_prompt(prompt: int) -> None:
            reserved = context.reserved_tokens
            try:
                await self.admit_prompt(key, reservation, reserved, prompt)
            except RateLimited as error:
                _note_refusal(context, error)
                raise
            context.reserved_tokens = Tokens(max(reserved.input, prompt), reserved.output)

        async def admit_tool_call() -> None:
            one = Tokens(tool_calls=1)
            await finished(self._reserve_more(key, reservation, one, one))

        async def admit_files(texts: Sequence[str]) -> None:
            await admit_prompt(context.reserved_tokens.input + files_beyond_estimate(texts))

        limits = key.limits
        counts_output = limits.counts_output
        context.lease = Lease(
            lambda: self.reservations.close(reservation),
            admit_prompt if counts_output else None,
            admit_files if counts_output else None,
            admit_tool_call if limits.counts_tool_calls else None,
        )

    async def admit(
        self,
        key: Key,
        request_id: str,
        tokens: Tokens,
        used: Callable[[], Tokens],
        names: RateLimitHeaders = "openai",
    ) -> Admission:
        """Admit a request. `tokens`: to reserve; `used`: returns the tokens used so far; `names`:
        of the headers. Raises RateLimited, and LimitsUnavailable if the limiter fails closed."""
        if not key.limits.any:
            return self._unlimited(key, request_id, used)
        # In a task of its own: Redis may have counted the request when its client leaves.
        admitting = asyncio.create_task(self._limited(key, request_id, tokens, used, names))
        try:
            return await asyncio.shield(admitting)
        except asyncio.CancelledError:
            in_background(self._give_back(admitting))
            raise

    async def _limited(
        self,
        key: Key,
        request_id: str,
        tokens: Tokens,
        used: Callable[[], Tokens],
        names: RateLimitHeaders,
    ) -> Admission:
        request = AdmissionRequest(key.id, request_id, costs(key.limits, tokens))
        result, counter = await self._count(request)
        limits = headers(request, result, names)
        if result.refused is not None:
            error = self._refused(key, result.refused, result)
            error.headers = limits
            raise error
        counted = charges(request.costs, result)
        return Admission(self.reservations.open(key.id, request_id, counted, used, counter), limits)

    async def admit_prompt(
        self, key: Key, reservation: Reservation, reserved: Tokens, prompt: int
    ) -> None:
        """Reserve what a prompt has beyond its estimate. `prompt`: its tokens as a backend has
        counted them, or as they are estimated with the texts of PDFs. Raises RateLimited."""
        extra = prompt - reserved.input
        if extra > 0:
            needed = Tokens(prompt, reserved.output)
            await finished(self._reserve_more(key, reservation, needed, Tokens(extra)))

    async def _reserve_more(
        self, key: Key, reservation: Reservation, needed: Tokens, extra: Tokens
    ) -> None:
        limited = [
            (kind, limit)
            for kind in KINDS
            if kind.unit.amount(extra) > kind.unit.amount(Tokens())
            and (limit := key.limits.of(kind)) is not None
        ]
        for kind, limit in limited:
            alone = Cost(kind, limit, kind.unit.amount(needed))
            if alone.amount > limit:
                raise self._refused(key, alone, AdmissionResult({}, alone, wait_ms=-1))
        added = tuple(Cost(kind, limit, kind.unit.amount(extra)) for kind, limit in limited)
        request = AdmissionRequest(key.id, reservation.request_id, added)
        try:
            result = await reservation.counter.admit(request)
        except Unavailable:
            return  # it is charged when the counter responds
        if result.refused is not None:
            raise self._refused(key, result.refused, result)
        reservation.add(added)
        if reservation.ended:  # its client left meanwhile
            await self.reservations.close(reservation)

    def _refused(self, key: Key, refused: Cost, result: AdmissionResult) -> RateLimited:
        LIMITED.labels(refused.kind.label).inc()
        return refusal(key.alias, refused, result)

    async def _give_back(self, admitting: asyncio.Task[Admission]) -> None:
        """Settle a request whose client left while it was admitted."""
        with suppress(ToolgateError):
            await self.reservations.close((await admitting).reservation)

    async def started(self) -> None:
        """Wait for a connection to Redis, for at most CONNECT_TIMEOUT."""
        if self._redis is not None:
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    await self._redis.connected()
            except TimeoutError:
                return

    async def aclose(self) -> None:
        await self.reservations.aclose()
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

    async def _count(self, request: AdmissionRequest) -> tuple[AdmissionResult, Counter]:
        if self._shared is not None:
            try:
                return await self._shared.admit(request), self._shared
            except Unavailable as error:
                self.reservations.abandon(
                    request.key_id, request.request_id, request.costs, self._shared
                )
                if not self._fails_open:
                    raise LimitsUnavailable(
                        f"The limits of this API key can't be checked because {error.reason}. Try "
                        "again shortly, or report this to the administrator of this gateway.",
                        retry_after=1,
                    ) from error
        return await self._local.admit(request), self._local

    def _unlimited(self, key: Key, request_id: str, used: Callable[[], Tokens]) -> Admission:
        """Record the use only, without waiting for Redis."""
        now = int(time.time() * 1000)
        recorded = [
            Charge(kind, 0, now // kind.window.milliseconds)
            for kind in KINDS
            if kind.counted_for == "every key"
        ]
        counter = self._shared or self._local
        return Admission(self.reservations.open(key.id, request_id, recorded, used, counter), {})


def _note_refusal(context: RequestContext, error: RateLimited) -> None:
    context.extra_headers |= error.headers
    if error.retry_after is None:
        context.extra_headers["x-should-retry"] = "false"  # read by OpenAI's SDKs
