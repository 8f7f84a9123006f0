"""The requests that a backend has taken on and not finished, and how many it takes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from toolgate_core.errors import BackendUnavailable

RETRY_SECONDS = 2


class InFlight:
    """vLLM queues without end: what waits longer than its client does is work for nobody."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.count = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """One more for as long as the context lasts. Raises BackendUnavailable when there are too
        many, so that the gateway asks another backend or tells its client to come again."""
        if self.count >= self._most:
            raise BackendUnavailable(
                f"This model's backend has {self.count} requests in hand; try again shortly.",
                retry_after=RETRY_SECONDS,
            )
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1
