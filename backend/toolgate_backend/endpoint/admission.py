"""Admission control: a limit on the number of active requests, and none while shutting down."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from toolgate_core.errors import BackendUnavailable

RETRY_SECONDS = 2
POLL_SECONDS = 0.05


class InFlightRequests:
    """Number of active requests. vLLM's queue has no limit, and requests that wait longer than
    their client's time-out are wasted work."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._closed = False
        self.count = 0

    def close(self) -> None:
        """From now on there are no new requests: the backend is shutting down."""
        self._closed = True

    def require_open(self) -> None:
        """Raises BackendUnavailable while the backend is shutting down. Gateways then send nothing
        more."""
        if self._closed:
            raise BackendUnavailable(
                "This model's backend is shutting down. Retry the request.",
                retry_after=RETRY_SECONDS,
            )

    def wait_until_idle(self, seconds: float) -> None:
        """Blocks the thread until no request is active, but no longer than `seconds`."""
        ends = time.monotonic() + seconds
        while self.count and time.monotonic() < ends:
            time.sleep(POLL_SECONDS)

    @contextmanager
    def track(self) -> Iterator[None]:
        """Count one more active request within the context. Raises BackendUnavailable if the limit
        is reached or the backend is shutting down, so that the gateway tries another backend or
        asks the client to retry."""
        self.require_open()
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
