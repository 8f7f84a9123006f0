"""Rate limit for wrong API keys, by client address.

Nobody can guess a key of 256 random bits. The limit saves the work, log lines and traffic that
wrong keys cause. A valid key is accepted even from an address over the limit, so a client is not
affected by others behind the same address. Each process counts for itself, so that wrong keys never
reach Redis.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable

from toolgate_core.errors import TooManyWrongKeys

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
        """Count a wrong key. Raises TooManyWrongKeys beyond the limit; that is not counted."""
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
            "Your address has sent too many wrong API keys. Check the key, and try again in "
            f"{seconds} s.",
            retry_after=seconds,
        )
