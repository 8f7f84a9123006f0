"""The leases of this process: the requests that limits admitted, until what they used is settled.

A background task updates all of them three times per lease: it renews their places among the
requests in flight, and charges what they have used beyond their reservation, so that a long
response counts while it is generated. An update that failed because Redis did not respond is sent
again in the next round.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from toolgate_core.errors import RateLimited

from ..background import finished
from ..keys.key import Key
from ..keys.limit_kinds import KINDS, NO_TOKENS, Tokens
from ..metrics import LIMITED
from .estimate import files_beyond_estimate
from .reservation import Amount, Counter, NoResponse, Reservation, Unavailable, refusal

logger = logging.getLogger(__name__)

ROUNDS_PER_LEASE = 3
CONCURRENT_UPDATES = 64
"""Requests updated in one exchange. One at a time, the leases of many requests would expire during
a round."""
MAX_PENDING = 100_000
"""Ended requests that are kept until they are settled. If Redis does not respond for long, the
oldest are dropped."""
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
    """The texts of its PDFs were admitted."""
    refusals: int = 0
    """Updates that Redis refused."""

    async def admit_prompt(self, prompt: int) -> None:
        """Reserve what a prompt has beyond its estimate. `prompt`: its tokens as a backend has
        counted them, or as they are estimated with the texts of PDFs. Raises RateLimited."""
        if not self.key.limits.counts_output:
            return
        reserved = self.reserved
        needed = Tokens(max(reserved.input, prompt), reserved.output)
        if (extra := prompt - reserved.input) > 0:
            await finished(self._reserve(needed, Tokens(extra)))
        self.reserved = needed

    async def admit_files(self, texts: Sequence[str]) -> None:
        """Reserve what the texts of PDFs have beyond their estimate. Later attempts of the request
        read them again. Raises RateLimited."""
        if not self.has_files:
            await self.admit_prompt(self.reserved.input + files_beyond_estimate(texts))
            self.has_files = True

    async def admit_tool_call(self) -> None:
        """Count one more call of a tool that the gateway runs. Raises RateLimited."""
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
        for each in added:
            alone = Amount(each.kind, each.limit, each.kind.unit.amount(needed))
            if each.limit is not None and alone.amount > each.limit:
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
    """`lease`: seconds after which a request without an update no longer counts as in flight."""

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
            held = list(self._held.values())
            for at in range(0, len(held), CONCURRENT_UPDATES):
                batch = held[at : at + CONCURRENT_UPDATES]
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
