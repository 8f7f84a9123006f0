"""Requests of the last minutes in this process, for the administrator's page.

Metrics are totals since the start of the process. Without a Prometheus server, they do not tell
what happens now.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

MINUTES = 15
MAX_TIMES = 512
"""Maximum number of first-token times that are kept of one minute."""


@dataclass
class Minute:
    start: int
    """In minutes since 1970."""
    requests: int = 0
    refused: int = 0
    """Requests with a status of 4xx."""
    failed: int = 0
    """Requests with a status of 5xx, and streams that ended with an error."""
    omitted: int = 0
    """Requests of which the model did not see all as it was sent."""
    first_token_seconds: list[float] = field(default_factory=list)


class RecentRequests:
    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._minutes: deque[Minute] = deque(maxlen=MINUTES)

    def note(
        self,
        status: str,
        first_token_seconds: float | None,
        *,
        omitted: bool = False,
    ) -> None:
        """`status`: as in the metrics. `omitted`: whether something was left out or replaced before
        the model saw the request."""
        now = int(self._clock() // 60)
        if not self._minutes or self._minutes[-1].start != now:
            self._minutes.append(Minute(now))
        minute = self._minutes[-1]
        minute.requests += 1
        minute.refused += status.startswith("4")
        minute.failed += status.startswith("5") or status == "stream_error"
        minute.omitted += omitted
        if first_token_seconds is not None and len(minute.first_token_seconds) < MAX_TIMES:
            minute.first_token_seconds.append(first_token_seconds)

    def minutes(self) -> list[Minute]:
        """The last MINUTES minutes, the earliest first, also those without requests."""
        now = int(self._clock() // 60)
        known = {minute.start: minute for minute in self._minutes}
        return [known.get(at) or Minute(at) for at in range(now - MINUTES + 1, now + 1)]
