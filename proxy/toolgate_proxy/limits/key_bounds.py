"""Bounds at this process: the bodies of one key's requests, and the wrong keys of an address.

Nobody can guess a key of 256 random bits. The limit on wrong keys saves the work, log lines and
traffic that they cause. A valid key is accepted even from an address over the limit, so a client is
not affected by others behind the same address. Each process counts for itself, so that wrong keys
never reach Redis.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable

from toolgate_core.errors import RateLimited, TooManyWrongKeys

RETRY_AFTER = 1
"""Seconds."""
SMALL, SMALL_ROOM = 65_536, 4_194_304
"""Size of a body that never waits behind larger ones, and the room that such bodies have besides
the limit: a large body that arrives slowly does not stop the other requests of its key."""


class BodyBudget:
    """Bytes of the bodies of each owner, from the first byte until the request ends."""

    def __init__(self, limit: int, *, small: int = SMALL) -> None:
        """`limit`: bytes for each owner. The largest body must fit. `small`: size up to which
        bodies do not wait behind larger ones."""
        self.limit = limit
        self.small = small
        self._used: defaultdict[str, int] = defaultdict(int)
        self.waiting: defaultdict[str, deque[tuple[BodyReservation, int, asyncio.Future[None]]]] = (
            defaultdict(deque)
        )
        """By owner, in the order in which they came."""

    def open(self, owner: str) -> BodyReservation:
        """Open the body of a request. `owner`: the id of a key, or "" for all requests without a
        valid one, or a name for what is counted apart."""
        return BodyReservation(self, owner)

    def used(self, owner: str) -> int:
        return self._used.get(owner, 0)

    def fits(self, owner: str, more: int, size: int) -> bool:
        """Return whether a body of `size` bytes may take `more` bytes."""
        room = SMALL_ROOM if size <= self.small else 0
        return self.used(owner) + more <= self.limit + room

    def add(self, owner: str, more: int) -> None:
        """Count `more` bytes of a body, or fewer. Requests that wait get what is free, in order."""
        self._used[owner] += more
        waiting = self.waiting[owner]
        while waiting and (
            waiting[0][2].cancelled() or self.fits(owner, waiting[0][1], waiting[0][1])
        ):
            reservation, size, granted = waiting.popleft()
            if not granted.cancelled():
                reservation.size += size
                self._used[owner] += size
                granted.set_result(None)
        if not self._used[owner]:
            del self._used[owner]
        if not waiting:
            del self.waiting[owner]


class BodyReservation:
    """The share of one body. Close it when the request has ended."""

    def __init__(self, budget: BodyBudget, owner: str) -> None:
        self.owner = owner
        self.size = 0
        self._budget = budget

    async def wait(self, size: int) -> None:
        """Wait until a body of `size` bytes may be received. It holds nothing meanwhile, so that
        requests never wait for each other."""
        budget, owner = self._budget, self.owner
        first = owner not in budget.waiting or size <= budget.small
        if first and budget.fits(owner, size, size):
            self.resize(size)
            return
        granted = asyncio.get_running_loop().create_future()
        budget.waiting[owner].append((self, size, granted))
        try:
            await granted
        except asyncio.CancelledError:
            granted.cancel()
            budget.add(owner, 0)  # those behind it may fit
            raise

    def resize(self, size: int) -> None:
        """Set the number of bytes that were received. If there is no room, raises RateLimited and
        gives all of them back: a body that has begun cannot wait for another one, and not all of
        them shall fail."""
        more = size - self.size
        if more > 0 and not self._budget.fits(self.owner, more, size):
            self.close()
            raise self.refusal()
        self.size = size
        self._budget.add(self.owner, more)

    def close(self) -> None:
        self.resize(0)

    def refusal(self) -> RateLimited:
        return RateLimited(
            f"The bodies of this API key's requests that have not ended take more than "
            f"{self._budget.limit:,} bytes. Send fewer large requests, or fewer of any size in the "
            "background, at once, or ask the operator to raise TOOLGATE_MAX_BODY_BYTES. Requests "
            "with a `content-length` wait for each other.",
            retry_after=RETRY_AFTER,
        )


MAX_ADDRESSES = 10_000
"""Addresses with attempts; beyond that the least recently seen address is dropped."""
WINDOW_SECONDS = 60.0


class FailedAttempts:
    """The times of the attempts of each address that were answered in the last minute. In no minute
    there are more than `per_minute`."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = per_minute
        self._clock = clock
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def count(self, address: str) -> None:
        """Count a wrong key. Raise TooManyWrongKeys beyond the limit; that is not counted."""
        moment = self._clock()
        times = self._times.setdefault(address, deque())
        self._times.move_to_end(address)
        if len(self._times) > MAX_ADDRESSES:
            self._times.popitem(last=False)
        while times and moment - times[0] >= WINDOW_SECONDS:
            times.popleft()
        if len(times) < self._limit:
            times.append(moment)
            return
        seconds = max(1, math.ceil(times[0] + WINDOW_SECONDS - moment))
        raise TooManyWrongKeys(
            "Your address has sent too many wrong API keys. Check the key, and send the "
            f"request again in {seconds} s.",
            retry_after=seconds,
        )
