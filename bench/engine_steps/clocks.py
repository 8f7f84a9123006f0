"""The time line of an accelerator that works through what is queued on it, one after the other, and
the processor time of the functions of an engine step."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

CACHE_LINE = 64


@dataclass(frozen=True)
class StepWork:
    """What a model does in one step. Times are in seconds."""

    forward: float = 0.0
    sample: float = 0.0
    prepare: float = 0.0
    """Processor time of the host before each forward pass, such as that of preparing inputs."""
    displaced_bytes: int = 0
    """Memory that the host touches before each forward pass, which displaces its caches."""


class Device:
    def __init__(self, work: StepWork) -> None:
        self.work = work
        self._displaced = np.zeros(work.displaced_bytes, np.uint8)[::CACHE_LINE]
        self._free_at = 0.0
        """When everything that is queued is done."""

    def prepare(self) -> None:
        """Do the host's work."""
        self._displaced += 1
        end = time.perf_counter() + self.work.prepare
        while time.perf_counter() < end:
            pass

    def queue(self, seconds: float) -> float:
        """Queue work, and return when it will be done."""
        self._free_at = max(time.perf_counter(), self._free_at) + seconds
        return self._free_at


def wait_until(moment: float) -> None:
    left = moment - time.perf_counter()
    if left > 0:
        time.sleep(left)


class CpuTimes:
    """Nanoseconds of the calling thread, by section."""

    def __init__(self) -> None:
        self._spent: Counter[str] = Counter()

    def watch(self, owner: Any, method: str, section: str) -> None:
        """Add the time of this method of this object to the section."""
        inner = getattr(owner, method)
        spent = self._spent

        def timed(*args: Any, **options: Any) -> Any:
            began = time.thread_time_ns()
            try:
                return inner(*args, **options)
            finally:
                spent[section] += time.thread_time_ns() - began

        setattr(owner, method, timed)

    def count(self, name: str, amount: int) -> None:
        self._spent[name] += amount

    def take(self) -> Counter[str]:
        """What was spent and counted since the last call."""
        taken = self._spent.copy()
        self._spent.clear()
        return taken
