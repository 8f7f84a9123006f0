"""A response of the background in Redis, for every gateway process.

`<record>`         as of every stored response: written once, by whoever ends the response
`<record>:events`  stream: the queued response, and then its events; both sealed
`<record>:state`   the status; it expires soon after the process that generates the response dies

The process that generates a response ends it, or one that cancels it, or one that finds that the
first process is gone. The last event of a response is made from its record.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncIterator
from dataclasses import replace

from toolgate_core.errors import InvalidRequest, RequestTooLarge, ResponseNotFound

from ...api.responses.output.stream import last_event, numbered
from ...redis_client import Script
from ...response_store.record import (
    IN_THREAD,
    StoredResponse,
    StoreUnavailable,
    apart,
    failed,
    gateway_stopped,
    is_active,
)
from ...response_store.store import ResponseStore
from ...sealing import SealBroken

WRITE = Script(__package__, "write.lua")
FIRST, WHOLE = "0-1", "0-2"
"""IDs of the entries with the queued response: without its input, which polls do not read, and with
it."""
POLL_SECONDS = 0.1
LIFE_MS, ENDED_MS = 86_400_000, 600_000
"""How long the events are kept after the last write, and after the end."""
CUT = b": cut\n\n"
"""In place of events that are too large."""
NUMBER = re.compile(rb'"sequence_number":(\d+)')
NOT_KEPT = InvalidRequest(
    "The events of this response are not kept: they were too large, or it ended more than ten "
    "minutes ago. Retrieve the response without `stream`.",
    param="stream",
)
TOO_LARGE = RequestTooLarge(
    "The response is too large to be stored (8 MB, compressed), so it can't be generated in the "
    "background. Shorten `input`."
)


class Place:
    """Each method raises StoreUnavailable."""

    lease = 15.0
    """Seconds after which a process that writes nothing counts as gone."""

    def __init__(self, store: ResponseStore, owner: str, response_id: str) -> None:
        assert store.shared is not None
        self._store, self._redis, self._named = store, store.shared, (owner, response_id)
        self._bound = {"purpose": f"response events {response_id}", "owner": owner}
        self.record = store.shared.record_of(owner, response_id)
        self._events, self._state = f"{self.record}:events", f"{self.record}:state"
        self._writes = 1

    async def write(self, status: str, entry: str = "", sealed: bytes = b"") -> bool:
        """Write an entry, if there is one, and renew the lease. Return False if the response has
        ended; for the first entry, if there is a response with the ID."""
        keys, lease = [self.record, self._events, self._state], round(self.lease * 1000)
        return bool(await self._redis.run(WRITE, keys, status, lease, LIFE_MS, entry, sealed))

    async def add(self, status: str, events: bytes, last: int) -> bool:
        """Write events, of which `last` is the number of the last one. Return False if the response
        has ended."""
        if not events:
            return await self.write(status)
        sealed = await apart(len(events) > IN_THREAD, self._sealed, events)
        self._writes += 1  # for another ID if the reply to an earlier attempt was lost
        return await self.write(status, f"{last + 1}-{self._writes}", sealed)

    async def end(self, ended: StoredResponse) -> StoredResponse | None:
        """Write the record, unless the response has ended before. Return it as it is stored."""
        reason = await self._store.put(self._named[0], ended)
        if reason == "too_large":
            body = {**ended.body, "output": [], "completed_at": None}
            ended = replace(ended, body=failed(body, TOO_LARGE.body()["error"]))
            reason = await self._store.put(self._named[0], ended)
        if reason not in (None, "exists"):
            raise StoreUnavailable("Redis does not respond or refuses the write")
        expire = ("PEXPIRE", self._events, ENDED_MS)
        await self._redis.commands(
            ("DEL", self._state), ("XDEL", self._events, FIRST, WHOLE), expire
        )
        return ended if reason is None else await self._store.find(*self._named)

    async def find(self, *, whole: bool = False) -> StoredResponse | None:
        """Return the response, which has failed if its process is gone. It has its input if it has
        ended, or for `whole`."""
        entry = WHOLE if whole else FIRST
        state, entries = await self._redis.commands(
            ("GET", self._state), ("XRANGE", self._events, entry, entry)
        )
        if not entries:
            return await self._store.find(*self._named)
        found = await self._store.opened(*self._named, [entries[0][1][b"data"]])
        for queued in found.turns:
            if state is None and not whole:
                return await self.find(whole=True)
            if state is None:
                return await self.end(replace(queued, body=gateway_stopped(queued.body)))
            return replace(queued, body={**queued.body, "status": state.decode()})
        return None

    async def has_events(self) -> bool:
        return bool((await self._redis.commands(("EXISTS", self._events)))[0])

    async def events(self, after: int) -> AsyncIterator[tuple[bytes, int]]:
        """Yield the events behind the number `after` as they are written, to the last one: some of
        them, and the number of the next one. Raise InvalidRequest and ResponseNotFound."""
        cursor, following = WHOLE if after < 0 else str(after + 1), after + 1
        while True:
            has_ended, read, state, top = await self._redis.commands(
                ("EXISTS", self.record),
                ("XREAD", "COUNT", 64, "STREAMS", self._events, cursor),
                ("GET", self._state),
                ("XREVRANGE", self._events, "+", "-", "COUNT", 1),
            )
            for entry, fields in read[0][1] if read else ():
                cursor, new = entry, []
                large = len(fields[b"data"]) > IN_THREAD
                opened = await apart(large, self._opened, fields[b"data"])
                for event in opened.split(b"\n\n")[:-1]:
                    if CUT.startswith(event):
                        raise NOT_KEPT
                    if (number := number_of(event, following)) >= following:
                        new.append(event + b"\n\n")
                        following = number + 1
                yield b"".join(new), following
            if not read and (has_ended or state is None):
                response = await self.find()
                if response is None:
                    raise ResponseNotFound("The response was deleted, or lost by Redis.")
                if not is_active(response):
                    break
            if not read:
                await asyncio.sleep(POLL_SECONDS)
        number = int(top[0][0].split(b"-")[0]) if top else following
        if number > after:
            yield numbered([last_event(response.body)], number)[0], number + 1

    def _sealed(self, events: bytes) -> bytes:
        return self._store.sealer.seal(zlib.compress(events, 1), **self._bound)

    def _opened(self, sealed: bytes) -> bytes:
        try:
            return zlib.decompress(self._store.sealer.open(sealed, **self._bound))
        except SealBroken:
            raise NOT_KEPT from None


def number_of(event: bytes, otherwise: int) -> int:
    """Return the sequence number of an event as it is sent."""
    found = NUMBER.search(event)
    return otherwise if found is None else int(found[1])
