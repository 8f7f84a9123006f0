"""The choice of the steps in which each mask is timed."""

from __future__ import annotations

import time

TIMED_STEPS = 16
"""Number of steps after a slow step in which each mask is timed. Then the sequence with slow masks
is known (mask_time_budget.py), and one that stays slow ends."""


class StepTimer:
    """In most steps the clock is read twice, however many sequences there are."""

    def __init__(self, seconds: float) -> None:
        """`seconds`: the wall time above which a step is slow."""
        self._seconds = seconds
        self._timed_steps = 0
        self._began = 0.0

    def begin(self) -> bool:
        """Whether each mask of this step has to be timed."""
        self._began = time.perf_counter()
        timed = self._timed_steps > 0
        self._timed_steps -= timed
        return timed

    def end(self) -> None:
        if time.perf_counter() - self._began > self._seconds:
            self._timed_steps = TIMED_STEPS
