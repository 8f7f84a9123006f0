"""Processor time of the functions of an engine step."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any


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

    def leave_out(self, section: str, ns: int) -> None:
        """Take off time that a watched method spends."""
        self._spent[section] -= ns

    def take(self) -> Counter[str]:
        """The time since the last call."""
        taken = self._spent.copy()
        self._spent.clear()
        return taken
