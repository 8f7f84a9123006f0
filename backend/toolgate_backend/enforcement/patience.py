"""How long one sequence's masks may hold up a step, in which all the others wait."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import TooSlow


class Patience:
    """Of one sequence. Counts the processor's time of the thread, so that a busy machine condemns
    nobody; a mask that is slow now and then is borne, one after another is not."""

    def __init__(self, seconds: float, times: int) -> None:
        self._seconds = seconds
        self._times = times
        self._left = times

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Around the making of one mask. Raises TooSlow after it, the `times`-th slow time in
        succession."""
        began = time.thread_time()
        yield
        if time.thread_time() - began <= self._seconds:
            self._left = self._times
            return
        self._left -= 1
        if self._left <= 0:
            raise TooSlow(
                f"{self._times} masks in succession took more than {self._seconds * 1e3:.0f} ms"
            )
