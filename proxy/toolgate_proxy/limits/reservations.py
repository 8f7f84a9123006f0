"""The requests in flight of this process: what was set aside for each, and what it used.

A task goes over them every other second: it renews their leases and charges what they used beyond
what was set aside, so that a long answer counts while it is written. What could not be noted (Redis
was away) is noted with the next round.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from .counter import AdmissionResult, Counter, Unavailable, UsageUpdate

logger = logging.getLogger(__name__)

ROUNDS_PER_LEASE = 3
TOGETHER = 64
"""Requests noted in one exchange: one after another, the leases of many would run out meanwhile."""
PATIENCE = 100_000
"""Ended requests still to be noted that are kept; while Redis is away for long the oldest go."""


@dataclass
class Reservation:
    """One request that was let in. `used` says the tokens it has used so far."""

    key_id: str
    request_id: str
    slice: int
    day: int
    parallel: bool
    charged: int
    """Tokens counted for it so far: those set aside, to begin with."""
    used: Callable[[], int]
    counter: Counter
    """The one that let it in."""
    ended: bool = False


class Reservations:
    """`lease`: seconds after which a request that is not noted counts no longer as in flight."""

    def __init__(self, lease: float) -> None:
        self._pause = lease / ROUNDS_PER_LEASE
        self._entries: dict[str, Reservation] = {}
        self._task: asyncio.Task[None] | None = None

    def open(
        self,
        key_id: str,
        request_id: str,
        counted: AdmissionResult,
        charged: int,
        parallel: bool,
        used: Callable[[], int],
        counter: Counter,
    ) -> Reservation:
        entry = Reservation(
            key_id, request_id, counted.slice, counted.day, parallel, charged, used, counter
        )
        self._enter(entry)
        return entry

    def abandon(self, key_id: str, request_id: str, counter: Counter) -> None:
        """No answer came to whether the request was let in. A server that hung may yet carry out
        what it was sent: the place in flight is given back with the next round."""
        entry = Reservation(key_id, request_id, 0, 0, True, 0, lambda: 0, counter, ended=True)
        self._enter(entry)

    async def close(self, entry: Reservation) -> None:
        """The request has ended: what it used is settled, its place is free."""
        entry.ended = True
        await self._note(entry)

    @property
    def in_flight(self) -> int:
        return sum(not entry.ended for entry in self._entries.values())

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _enter(self, entry: Reservation) -> None:
        self._entries[entry.request_id] = entry
        if self._task is None:
            self._task = asyncio.create_task(self._rounds())

    async def _rounds(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            entries = list(self._entries.values())
            for at in range(0, len(entries), TOGETHER):
                noted = await asyncio.gather(*map(self._note, entries[at : at + TOGETHER]))
                if not all(noted):
                    break  # Redis is away: one try a round is enough
            for request_id in list(self._entries)[: max(0, len(self._entries) - PATIENCE)]:
                del self._entries[request_id]

    async def _note(self, entry: Reservation) -> bool:
        used = entry.used()
        beyond = used - entry.charged if entry.ended else max(0, used - entry.charged)
        if not (beyond or entry.parallel):
            if entry.ended:
                self._entries.pop(entry.request_id, None)
            return True
        note = UsageUpdate(
            entry.key_id, entry.request_id, beyond, entry.slice, entry.day, entry.parallel,
            entry.ended,
        )  # fmt: skip
        # Charged before the exchange: were it lost on the way back, a second would count twice.
        entry.charged += beyond
        ended = entry.ended
        try:
            await entry.counter.note(note)
        except Unavailable:
            entry.charged -= beyond
            return False
        if ended:
            self._entries.pop(entry.request_id, None)
        return True
