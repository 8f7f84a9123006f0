"""The time line of an accelerator that works through what is queued on it, one after the other."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True)
class StepTimes:
    """Seconds that a model takes for one step."""

    forward: float = 0.0
    sample: float = 0.0
    prepare: float = 0.0
    """Processor time of the host before each forward pass, such as that of preparing inputs."""


class Device:
    def __init__(self, times: StepTimes) -> None:
        self.times = times
        self._free_at = 0.0
        """When everything that is queued is done."""

    def queue(self, seconds: float) -> float:
        """Queue work, and return when it will be done."""
        self._free_at = max(time.perf_counter(), self._free_at) + seconds
        return self._free_at


def wait_until(moment: float) -> None:
    left = moment - time.perf_counter()
    if left > 0:
        time.sleep(left)


def work_for(seconds: float) -> None:
    """Keep the processor busy, as code that prepares inputs does."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
