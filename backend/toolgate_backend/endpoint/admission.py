"""Admission control: a limit on the number of active requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from toolgate_core.errors import BackendUnavailable

RETRY_SECONDS = 2


class InFlightRequests:
    """Number of active requests. vLLM's queue has no limit, and requests that wait longer than
    their client's time-out are wasted work."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.count = 0

    @contextmanager
    def track(self) -> Iterator[None]:
        """Count one more active request within the context. Raises BackendUnavailable if the limit
        is reached, so that the gateway tries another backend or asks the client to retry."""
        if self.count >= self._limit:
            raise BackendUnavailable(
                f"This model's backend has {self.count} active requests, which is its limit "
                "(TOOLGATE_MAX_REQUESTS). Retry the request.",
                retry_after=RETRY_SECONDS,
            )
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1
