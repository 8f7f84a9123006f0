"""How one request ends, and when."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class Outcome:
    began: float = field(default_factory=time.monotonic)
    arrived: float = field(default_factory=time.time)
    """Seconds since 1970."""
    status: int | None = None
    """HTTP status of the response. None before its first byte."""
    failed: bool = False
    """The response is an error, even if its status was 200 when it began."""
    code: str | None = None
    """Of the error response, or of the error event in a stream."""
    cause: str | None = None
    """The exception behind a server error, without content of the request."""
    sent_whole: bool = False
    """The complete response was sent."""
    first_byte_seconds: float | None = None
    first_event: float | None = None
    """Monotonic time of the first event with output of a stream."""
    last_event: float | None = None

    @property
    def first_event_seconds(self) -> float | None:
        """Seconds until the first event with output of a stream."""
        return None if self.first_event is None else self.first_event - self.began

    def begin(self, status: int) -> None:
        """Note that the response begins."""
        self.status = status
        self.failed = status >= 400
        if not self.failed:
            self.code = None  # of an attempt that was repeated
        self.first_byte_seconds = round(time.monotonic() - self.began, 4)

    def note_event(self) -> None:
        """Note a write of a stream that has output."""
        self.last_event = time.monotonic()
        if self.first_event is None:
            self.first_event = self.last_event
