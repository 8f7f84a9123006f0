"""How long one sequence's masks may hold up a step, in which all the others wait."""

from __future__ import annotations

import time
from types import TracebackType

from ..errors import TooSlow


class MaskTimeBudget:
    """Of one sequence; a context around the making of each mask. Raises TooSlow after one, the
    `times`-th slow one in succession.

    Counts the processor's time of the thread, so that a busy machine condemns nobody; a mask that
    is slow now and then is borne, one after another is not. That time is asked of the kernel, so
    only once a mask took long by the clock on the wall, which is read for nothing."""

    def __init__(self, seconds: float, times: int) -> None:
        self._seconds = seconds
        self._times = times
        self._left = times
        self._began = 0.0
        self._worked: float | None = None
        """The thread's time at the beginning, where there is doubt."""
        self._doubted = False

    def __enter__(self) -> None:
        self._worked = time.thread_time() if self._doubted else None
        self._began = time.perf_counter()

    def __exit__(
        self, error: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        if error is not None:
            return
        self._doubted = time.perf_counter() - self._began > self._seconds
        if self._worked is None:
            return
        if not self._doubted or time.thread_time() - self._worked <= self._seconds:
            self._left = self._times
            return
        self._left -= 1
        if self._left <= 0:
            raise TooSlow(
                f"{self._times} masks in succession took more than {self._seconds * 1e3:.0f} ms"
            )
