"""Wrong keys, counted by the address they come from.

A key has 256 random bits: nobody guesses one. What is held off here is the work, the noise in the
logs and the traffic; so a right key is let in even from an address that has sent many wrong ones,
and no neighbour behind the same address suffers.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from toolgate_core.errors import TooManyWrongKeys

ADDRESSES = 10_000
"""Addresses remembered; the one that has been quiet longest is forgotten first."""


class FailedAttempts:
    """A token bucket for each address."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst = float(per_minute)
        self._per_second = per_minute / 60
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def count(self, address: str) -> None:
        """A wrong key has come. Raises TooManyWrongKeys where there have been too many."""
        moment = self._clock()
        left, since = self._left.get(address, (self._burst, moment))
        left = min(self._burst, left + (moment - since) * self._per_second)
        refused = left < 1
        self._left[address] = (left if refused else left - 1, moment)
        self._left.move_to_end(address)
        if len(self._left) > ADDRESSES:
            self._left.popitem(last=False)
        if refused:
            raise TooManyWrongKeys(
                "Too many wrong API keys came from this address; wait before you send another.",
                retry_after=max(1, math.ceil((1 - left) / self._per_second)),
            )
