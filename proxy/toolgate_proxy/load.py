"""How much this process has under way at a backend."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

ON_ITS_WAY = 2.0
"""Seconds in which a request that was told where to go should have arrived there."""


class Load:
    """Requests that a backend answers, and those that were just sent its way: between LiteLLM's
    choice of a deployment and the provider's work others are chosen for, and without those a whole
    burst would go to one backend."""

    def __init__(self) -> None:
        self._running = 0
        self._expected: deque[float] = deque()
        """When each was sent its way, by time.monotonic."""

    def expect(self) -> None:
        self._expected.append(time.monotonic())

    @contextmanager
    def carried(self) -> Iterator[None]:
        """While a request is answered there."""
        if self._expected:
            self._expected.popleft()
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1

    @property
    def requests(self) -> int:
        late = time.monotonic() - ON_ITS_WAY
        while self._expected and self._expected[0] < late:
            self._expected.popleft()
        return self._running + len(self._expected)
