"""Streamed responses in flight, for readers other than the client that requested them.

Only the process that generates a response has it here. When it has ended, the store has it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial

from ..settings import Settings
from .record import RESPONSE_MAX_BYTES, EventLog, Json, StoredResponse
from .sealed_store import EventsTooLarge

UNPACKED = 4
"""Most bytes of the events of a response in memory, by those of a stored one, which is compressed.
"""
DELTA_BYTES = 64
"""Of a delta in the log beside its text, about."""
BATCH = 256
"""Most events that a reader takes at once."""


class LiveResponse:
    """The events of one response so far. Readers wait for further ones, at their own pace: they
    read from the log, so none has a queue."""

    def __init__(
        self,
        start: Json,
        turn: Callable[[], StoredResponse],
        most: int,
        on_end: Callable[[LiveResponse], None],
        *,
        started: bool = True,
    ) -> None:
        """`start`: the response object before the first item. `turn`: makes the record of the
        response, with that object. `most`: bytes of events. `started`: False for one that waits in
        the background."""
        self.start = start
        self._started = started
        self.turn = turn
        self.log: EventLog | None = EventLog(start)
        """None if the events were too large to keep."""
        self._left = most
        self._on_end = on_end
        self.last: Json | None = None
        """The last event, once the response has ended."""
        self._change: asyncio.Event | None = None
        """What readers wait for, if any do."""

    @property
    def ended(self) -> bool:
        return self.last is not None

    def restart(self, start: Json) -> None:
        """Start a response that has waited. `start`: the response object before the first item."""
        self.start, self._started = start, True
        if self.log is not None:
            self.log.start = start
        self._wake()

    async def starts(self) -> bool:
        """Wait until the response starts. Return False if it ends without having started."""
        while not self._started and not self.ended:
            await self._changed()
        return self._started

    def add(self, event: Json, size: int) -> None:
        """Add an event. `size`: of the event's JSON, in bytes."""
        if self.log is None:
            return
        entries = len(self.log.entries)
        self.log.add(event)
        joined = len(self.log.entries) == entries
        self._left -= len(event["delta"]) + DELTA_BYTES if joined else size
        if self._left < 0:
            self.log = None
        self._wake()

    def end(self, event: Json) -> None:
        """End the response. `event`: the last one."""
        self.last = event
        self._on_end(self)
        self._wake()

    async def batches(self) -> AsyncIterator[list[Json]]:
        """Yield the events after the first ones, as they come, to the last one. Raises
        EventsTooLarge where they were not kept."""
        log = self.log
        if log is None:
            raise EventsTooLarge
        position = _Position(log)
        while True:
            if events := position.next(BATCH):
                yield events
                await asyncio.sleep(0)  # so that other requests continue
            elif self.log is None:
                raise EventsTooLarge
            elif self.last is not None:
                yield [self.last]
                return
            else:
                await self._changed()

    async def _changed(self) -> None:
        self._change = self._change or asyncio.Event()
        await self._change.wait()

    def _wake(self) -> None:
        change, self._change = self._change, None
        if change is not None:
            change.set()


class LiveResponses:
    """The responses in flight of this process, by owner and ID."""

    def __init__(self, settings: Settings) -> None:
        self._responses: dict[tuple[str, str], LiveResponse] = {}
        self._most = UNPACKED * RESPONSE_MAX_BYTES
        self._stores = settings.responses_quota > 0

    def begin(
        self,
        owner: str,
        start: Json,
        turn: Callable[[], StoredResponse],
        *,
        started: bool = True,
    ) -> LiveResponse | None:
        """Return None if responses are not stored. If the client set the ID of another response in
        flight, readers get that one."""
        if not self._stores:
            return None
        name = (owner, str(start["id"]))
        live = LiveResponse(start, turn, self._most, partial(self._end, name), started=started)
        self._responses.setdefault(name, live)
        return live

    def find(self, owner: str, response_id: str) -> LiveResponse | None:
        return self._responses.get((owner, response_id))

    def _end(self, name: tuple[str, str], live: LiveResponse) -> None:
        if self._responses.get(name) is live:
            del self._responses[name]


class _Position:
    """A reader's place in a log."""

    def __init__(self, log: EventLog) -> None:
        self._entries = log.entries
        self._entry = 0
        self._delta = 0
        """Number of deltas of the entry that were read."""

    def next(self, most: int) -> list[Json]:
        """Return the next events, at most `most`."""
        made: list[Json] = []
        while len(made) < most and self._entry < len(self._entries):
            entry = self._entries[self._entry]
            if "rest" not in entry:
                made.append(entry)
                self._entry += 1
                continue
            deltas = entry["deltas"][self._delta : self._delta + most - len(made)]
            made += ({**entry["rest"], "delta": delta} for delta in deltas)
            self._delta += len(deltas)
            if self._delta < len(entry["deltas"]) or self._entry + 1 == len(self._entries):
                break  # `most` were read, or the last entry grows
            self._entry, self._delta = self._entry + 1, 0
        return made
