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
    tolerated. A mask is slow if it took more than `seconds` of the thread's processor time: wall
    time would blame a sequence for a busy machine.
    """

    def __init__(self, seconds: float | None = None, max_slow: int = MAX_SLOW) -> None:
        """`seconds`: MASK_SECONDS by default."""
        self._seconds = MASK_SECONDS if seconds is None else seconds
        self._max_slow = self._slow_left = max_slow
        self._started = 0.0

    def __enter__(self) -> None:
        self._started = time.thread_time()

    def __exit__(
        self, error: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        if error is not None:
            return
        is_slow = time.thread_time() - self._started > self._seconds
        self._slow_left = self._slow_left - 1 if is_slow else self._max_slow
        if self._slow_left <= 0:
            raise MaskTooSlow(
                f"{self._max_slow} masks in a row each took more than {self._seconds * 1e3:.0f} ms "
                "of processor time. Simplify the tool's schema."
            )
