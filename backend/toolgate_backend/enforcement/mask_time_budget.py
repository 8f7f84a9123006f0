"""A limit on the time that one sequence's masks may take in a step."""

from __future__ import annotations

import time
from types import TracebackType

from ..errors import MaskTooSlow

MASK_SECONDS = 0.02
"""Maximum processor time of one sequence's mask in a step, while all other sequences wait. The
slowest of 3,257 masks of real calls took 1.3 ms."""
MAX_SLOW = 8
"""Slow masks in a row after which the sequence ends with an error."""


class MaskTimeBudget:
    """Context manager around each mask computation of one sequence.

    Raises MaskTooSlow after `max_slow` slow masks in a row. One slow mask among fast ones is
    tolerated.

    A mask is slow if it took more than `seconds` of the thread's processor time. Wall time would
    blame a sequence for a busy machine. Reading the processor time is a system call, whereas
    reading the wall clock is free. The processor time is therefore measured only for the mask that
    follows one with a long wall time.
    """

    def __init__(self, seconds: float | None = None, max_slow: int = MAX_SLOW) -> None:
        """`seconds`: MASK_SECONDS by default."""
        self._seconds = MASK_SECONDS if seconds is None else seconds
        self._max_slow = max_slow
        self._slow_left = max_slow
        self._started = 0.0
        self._cpu_started: float | None = None
        """The thread's processor time at the start; None if it is not measured."""
        self._measure_cpu = False

    def __enter__(self) -> None:
        self._cpu_started = time.thread_time() if self._measure_cpu else None
        self._started = time.perf_counter()

    def __exit__(
        self, error: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        if error is not None:
            return
        self._measure_cpu = time.perf_counter() - self._started > self._seconds
        if self._cpu_started is None:
            return
        if not self._measure_cpu or time.thread_time() - self._cpu_started <= self._seconds:
            self._slow_left = self._max_slow
            return
        self._slow_left -= 1
        if self._slow_left <= 0:
            raise MaskTooSlow(
                f"{self._max_slow} masks in a row each took more than {self._seconds * 1e3:.0f} ms "
                "of processor time. Simplify the tool's schema."
            )
