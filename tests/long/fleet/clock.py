"""A virtual clock: an event loop whose time passes only while all of its tasks wait."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

START = 1_800_000_000.0
"""Seconds since 1970 when a simulation begins."""


class Deadlock(Exception):
    """All tasks wait, and nothing will wake one."""


class _Selector(selectors.SelectSelector):
    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Deadlock("All tasks of the simulation wait for each other.")
        self.loop.seconds += max(timeout, 0.0)
        return []  # no descriptor is in use


class VirtualLoop(asyncio.SelectorEventLoop):
    """`seconds`: since the beginning of the simulation."""

    def __init__(self) -> None:
        self.seconds = 0.0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.seconds


@contextmanager
def virtual_time() -> Iterator[VirtualLoop]:
    """A loop, and `time` as its clock."""
    loop = VirtualLoop()
    clocks: dict[str, Any] = {
        "time": lambda: START + loop.seconds,
        "time_ns": lambda: round((START + loop.seconds) * 1e9),
        "monotonic": lambda: loop.seconds,
    }
    asyncio.set_event_loop(loop)
    try:
        with patch.multiple(time, **clocks):
            yield loop
    finally:
        asyncio.set_event_loop(None)
        loop.close()
