"""A bound on the WebSocket connections of one key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from toolgate_core.errors import RateLimited

from ..keys.key import Key
from ..keys.limit_kinds import IN_FLIGHT, KINDS

RETRY_AFTER = 1
"""Seconds."""


class SocketLimit:
    """Open connections of each key at this process."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    @contextmanager
    def connection(self, key: Key | None) -> Iterator[None]:
        """Count one connection. The master key has no limit. Raises RateLimited."""
        if key is None:
            yield
            return
        # A key can't use more connections than it may have requests at once.
        at_once = [key.limits.of(kind) for kind in KINDS if kind.window is IN_FLIGHT]
        most = min([self._most, *(limit for limit in at_once if limit)])
        if self._open[key.id] >= most:
            raise RateLimited(
                f"The API key {key.alias!r} has {most} open WebSocket connections, its limit at "
                "this gateway. Close one, or use HTTP.",
                retry_after=RETRY_AFTER,
            )
        self._open[key.id] += 1
        try:
            yield
        finally:
            self._open[key.id] -= 1
            if not self._open[key.id]:
                del self._open[key.id]
