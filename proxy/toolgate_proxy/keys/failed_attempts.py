"""Rate limit for wrong API keys, by client address.

Nobody can guess a key of 256 random bits. The limit saves the work, log lines and traffic that
wrong keys cause. A valid key is accepted even from an address over the limit, so a client is not
affected by others behind the same address.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from toolgate_core.errors import TooManyWrongKeys

MAX_ADDRESSES = 10_000
"""Addresses with a bucket; beyond that the least recently seen address is dropped."""


class FailedAttempts:
    """A token bucket for each address."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst = float(per_minute)
        self._per_second = per_minute / 60
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Attempts left, and the time of the last one."""

    def count(self, address: str) -> None:
        """Count a wrong key. Raises TooManyWrongKeys if the bucket is empty."""
        moment = self._clock()
        left, since = self._buckets.get(address, (self._burst, moment))
        left = min(self._burst, left + (moment - since) * self._per_second)
        refused = left < 1
        self._buckets[address] = (left if refused else left - 1, moment)
        self._buckets.move_to_end(address)
        if len(self._buckets) > MAX_ADDRESSES:
            self._buckets.popitem(last=False)
        if refused:
            seconds = max(1, math.ceil((1 - left) / self._per_second))
            raise TooManyWrongKeys(
                "Your address has sent too many wrong API keys. Check the key, and try again in "
                f"{seconds} s.",
                retry_after=seconds,
            )
