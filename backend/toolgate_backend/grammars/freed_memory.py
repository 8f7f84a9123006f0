"""Memory of released grammars goes back to the system.

Grammars and graphs are many small objects of native code and Python, among others that stay, so
glibc keeps their pages: after 3,000 schemas with a call each, a process of 235 MB had 83 MB of free
memory.
"""

from __future__ import annotations

import ctypes
import time
from contextlib import suppress

PERIOD = 60.0
"""Shortest time between two returns, in seconds. One takes milliseconds, in which other threads may
wait for memory."""


class FreedMemory:
    """When freed memory goes back to the system."""

    def __init__(self) -> None:
        self._returned = time.monotonic()

    def is_due(self) -> bool:
        """Return whether the memory should go back now. It is not due again for PERIOD."""
        now = time.monotonic()
        if now - self._returned < PERIOD:
            return False
        self._returned = now
        return True


def return_freed() -> None:
    """Give freed memory back to the system. Do nothing with other C libraries than glibc. Python's
    lock is free meanwhile."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
