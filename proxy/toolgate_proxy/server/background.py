"""A response of the background: its process generates it (`Run`), and every gateway reads it in
Redis (`Place`).

`<record>`         as of every stored response: written once, by whoever ends the response
`<record>:events`  stream: the queued response, and then its events; both sealed
`<record>:state`   the status; it expires soon after the process that generates the response dies

The process that generates a response ends it, or one that cancels it, or one that finds that the
first process is gone. The last event of a response is made from its record.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolgate_core import errors

from ..api.responses.output.stream import ENDS, error_event, first_events, last_event, numbered
from ..api.surface import is_streamed
from ..context import REQUEST_ID, SCOPE, context_of
from ..redis_client import Argument, Script
from ..response_store import record
from ..response_store.record import IN_THREAD, StoredResponse, apart
from ..response_store.store import ResponseStore
from ..sealing import SealBroken
from ..state import gateway
from .body import READ, RESERVED, RequestBody
from .client import BACKGROUND, owner_of
from .connection import Disconnect, Reply
from .request_scope import RequestScope

MOST_RUNNING, MOST_BYTES = 64, 16_000_000
"""Most responses of one owner that a process generates at once, and bytes of the events of one."""
PATIENCE, PAUSE = 60.0, 1.0
"""Seconds for which the end of a response is kept while Redis does not respond, and between two
attempts."""
WRITE_SECONDS, READ_SECONDS = 0.05, 0.1
"""Between two writes of events, and between two attempts to read more."""
LIFE_MS, ENDED_MS = 86_400_000, 600_000
"""How long events are kept after the last write, and after the end."""
WRITE = Script(__package__, "background.lua")
SHOWN, WHOLE = "0-1", "0-2"
"""IDs of the entries with the queued response: without its input, which polls do not read, and with
it. The ID of events begins with the number after them."""
NUMBER = re.compile(rb'"sequence_number":(\d+)')
CUT = b": cut\n\n"
"""In place of further events if there are too many bytes. It has no number."""
LAST = tuple(f"event: {kind}\n".encode() for kind in ENDS.values())
NOT_KEPT = errors.InvalidRequest(
    "The events of this response are not kept: they were too large, or it ended more than ten "
    "minutes ago. Retrieve the response without `stream`.",
    param="stream",
)
TOO_LARGE = errors.RequestTooLarge(
    "The response is too large to be stored (8 MB, compressed), so it can't be generated in the "
    "background. Shorten `input`."
)


class Place:
    """Each method raises ResponsesUnavailable."""

    lease = 15.0
    """Seconds after which a process that writes nothing counts as gone."""

    def __init__(self, store: ResponseStore, owner: str, response_id: str) -> None:
        assert store.shared is not None
        self._store, self._redis, self._named = store, store.shared, (owner, response_id)
        self._bound = {"purpose": f"response events {response_id}", "owner": owner}
        self.record = store.shared.record_of(owner, response_id)
        self._events, self._state = f"{self.record}:events", f"{self.record}:state"

    async def queue(self, turn: StoredResponse) -> None:
        """Write a response before it is generated. Raise RequestTooLarge, and InvalidRequest if
        there is one with its ID."""
        entries: list[Argument] = []
        for entry, each in ((SHOWN, replace(turn, input=())), (WHOLE, turn)):
            sealed = (await record.sealed(self._store.sealer, self._named[0], each)).record
            entries += entry, sealed
            if len(sealed) > self._redis.most:
                raise TOO_LARGE
        if not await self._write("queued", *entries):
            message = "There is a response with this ID. Send another `request_id`."
            raise errors.InvalidRequest(message, param="request_id")

    async def add(self, events: bytes, following: int) -> bool:
        """Write events, and renew the lease. `following`: the number after them. Return False if
        the response has ended."""
        status, entries = "queued" if following < 3 else "in_progress", list[Argument]()
        if events:
            sealed = await apart(len(events) > IN_THREAD, self._sealed, events)
            # The time makes another ID if the reply to an earlier attempt was lost.
            entries += f"{following}-{time.time_ns()}", sealed
        return await self._write(status, *entries)

    async def end(self, ended: StoredResponse) -> StoredResponse | None:
        """Write the record, unless the response has ended before. Return it as it is stored."""
        reason = await self._store.put(self._named[0], ended)
        if reason == "too_large":
            body = {**ended.body, "output": [], "completed_at": None}
            ended = replace(ended, body=record.failed(body, TOO_LARGE.body()["error"]))
            reason = await self._store.put(self._named[0], ended)
        if reason not in (None, "exists"):
            raise record.unavailable("Redis does not respond or refuses the write")
        queued, expire = ("XDEL", self._events, SHOWN, WHOLE), ("PEXPIRE", self._events, ENDED_MS)
        await self._redis.commands(("DEL", self._state), queued, expire)
        return ended if reason is None else await self._store.find(*self._named)

    async def find(self, *, whole: bool = False) -> StoredResponse | None:
        """Return the response, which has failed if its process is gone. It has its input if it has
        ended, or for `whole`."""
        [state] = await self._redis.commands(("GET", self._state))
        entry = WHOLE if whole or state is None else SHOWN
        [entries] = await self._redis.commands(("XRANGE", self._events, entry, entry))
        if not entries:
            return await self._store.find(*self._named)
        found = await self._store.opened(*self._named, [entries[0][1][b"data"]])
        for queued in found.turns:
            if state is None:
                return await self.end(replace(queued, body=record.gateway_stopped(queued.body)))
            return replace(queued, body={**queued.body, "status": state.decode()})
        return None

    async def has_events(self) -> bool:
        return bool((await self._redis.commands(("EXISTS", self._events)))[0])

    async def events(self, after: int) -> AsyncIterator[tuple[bytes, int]]:
        """Yield the events behind the number `after` as they are written, to the last one: some of
        them, and the number of the next one. Raise InvalidRequest and ResponseNotFound."""
        cursor, following = WHOLE if after < 1 else str(after), 0
        while True:
            is_active, read = await self._redis.commands(
                ("EXISTS", self._state), ("XREAD", "COUNT", 64, "STREAMS", self._events, cursor)
            )
            for entry, fields in read[0][1] if read else ():
                cursor, sealed, new = entry, fields[b"data"], b""
                for event in await apart(len(sealed) > IN_THREAD, self._opened, sealed):
                    if (found := NUMBER.search(event)) is None:
                        raise NOT_KEPT
                    if (number := int(found[1])) >= following:
                        following = number + 1
                        new += event + b"\n\n" if number > after else b""
                yield new, following
            if not read and not is_active:
                response = await self.find()
                if response is None:
                    raise errors.ResponseNotFound("The response was deleted, or lost by Redis.")
                if not record.is_active(response):
                    break
            if not read:
                await asyncio.sleep(READ_SECONDS)
        if following > after:
            yield numbered([last_event(response.body)], following)[0], following + 1

    async def _write(self, status: str, *entries: Argument) -> bool:
        keys, lease = [self.record, self._events, self._state], round(self.lease * 1000)
        return bool(await self._redis.run(WRITE, keys, status, lease, LIFE_MS, *entries))

    def _sealed(self, events: bytes) -> bytes:
        return self._store.sealer.seal(zlib.compress(events, 1), **self._bound)

    def _opened(self, sealed: bytes) -> list[bytes]:
        try:
            events = zlib.decompress(self._store.sealer.open(sealed, **self._bound))
        except SealBroken:
            raise NOT_KEPT from None
        return events.split(b"\n\n")[:-1]


class Run:
    """ASGI app. `app` serves the request with the body `values`, of `size` bytes, a second time and
    on its own: limits, log and metrics are those of that request."""

    def __init__(self, app: ASGIApp, scope: Scope, values: Mapping[str, Any], size: int) -> None:
        """Raise RateLimited."""
        context, most = context_of(scope), gateway().bodies.limit
        self.sender, self.size, self._stream = owner_of(scope, context), size, is_streamed(values)
        mine = [run.size for run in RUNNING if run.sender == self.sender]
        if len(mine) >= MOST_RUNNING or sum(mine) + size > most:
            raise errors.RateLimited(
                f"{len(mine)} responses in the background of this API key have not ended. At most "
                f"{MOST_RUNNING} are generated at once, with bodies of {most:,} bytes together. "
                "Send the request again when one of them has ended.",
                retry_after=5,
            )
        body = {"request_id": secrets.token_hex(16), **values}
        if isinstance(body.get("stream"), bool | None):
            body["stream"] = True  # others are refused
        self._scope = {name: value for name, value in scope.items() if name != SCOPE} | {
            "headers": [(REQUEST_ID.encode(), str(context.request_id).encode()), *scope["headers"]],
            READ: RequestBody.of_values(body, size),
            RESERVED: context.free_memory,
            BACKGROUND: self,
        }
        context.model = context.free_memory = None  # those of the other request have them
        self.turn: StoredResponse | None = None
        self.place: Place | None = None
        self.stopped, self._known, self._arrived = (asyncio.Event() for _ in range(3))
        """Set when the generation must end, when the response is queued or refused, and when there
        is something to write."""
        self._refusal: list[Message] = []
        self._events, self._last, self._next, self._bytes = b"", b"", 0, 0
        self.task = asyncio.create_task(self._run(RequestScope(app)))
        RUNNING.add(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond when the response is queued, or follow it if the request asks for a stream. If
        the client disconnects before, nothing is generated."""
        context = context_of(scope)
        async with Disconnect(receive) as disconnect:
            await self._known.wait()
            disconnect.ignore()
            context.notes.show(context_of(self._scope).notes)
            for message in self._refusal if self.turn is None else ():
                await send(message)
            if self.turn is not None and not self._stream:
                await Reply(send, context).json(self.turn.body)
        if self.place is None:
            self.stopped.set()
        elif self._stream:
            await follow(self.place, -1)(scope, receive, send)

    async def queue(self, owner: str, turn: StoredResponse) -> None:
        """Store a response before it is generated, unless the request goes on to another model.
        Raise ToolgateError."""
        store = gateway().responses
        if self.turn is not None:
            return
        if store.shared is None or not store.shared.most:
            raise errors.UnsupportedParameter(
                "'background' needs responses that are stored in Redis, but TOOLGATE_REDIS_URL or "
                "TOOLGATE_FLEET_SECRET is not set, or TOOLGATE_RESPONSES_QUOTA is 0. Remove it.",
                param="background",
            )
        place = Place(store, owner, turn.id)
        await place.queue(turn)
        self.turn, self.place = turn, place
        self._add(b"".join(numbered(first_events(turn.body)[:2], 0)))
        self._known.set()

    async def _run(self, app: ASGIApp) -> None:
        """Generate the response, and write its events as they come and then its record. Renew the
        lease until then."""
        generating = asyncio.ensure_future(app(self._scope, self._receive, self._send))
        generating.add_done_callback(lambda _: self._arrived.set())
        ended, until = None, float("inf")
        try:
            await self._arrived.wait()
            while self.turn is not None and self.place is not None and time.monotonic() < until:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._arrived.wait(), self.place.lease / 3)
                self._arrived.clear()
                if ended is None and generating.done():
                    ended = replace(self.turn, body=self._ended(self.turn.body))
                    until = time.monotonic() + (2 if self.stopped.is_set() else PATIENCE)
                events, pause = self._events, WRITE_SECONDS
                try:
                    if not await self.place.add(events, self._next):
                        self.stopped.set()
                    self._events = self._events[len(events) :]
                    if ended is not None:
                        await self.place.end(ended)
                        return
                except errors.ResponsesUnavailable:
                    self._arrived.set()
                    pause = PAUSE
                await asyncio.sleep(pause)
        finally:
            RUNNING.discard(self)
            self._known.set()

    async def _receive(self) -> Message:
        await self.stopped.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if self._refusal or message.get("status", 200) != 200:
            self._refusal.append(message)
        else:
            self._add(message.get("body", b""))

    def _add(self, data: bytes) -> None:
        """Keep events until they are written. The last one is that of the record."""
        for event in data.split(b"\n\n")[:-1]:
            found = NUMBER.search(event)
            if event.startswith(LAST):
                self._last = event
            elif found and int(found[1]) >= self._next and self._bytes <= MOST_BYTES:
                self._next, self._bytes = int(found[1]) + 1, self._bytes + len(event)
                self._events += event + b"\n\n" if self._bytes <= MOST_BYTES else CUT
        self._arrived.set()

    def _ended(self, queued: record.Json) -> record.Json:
        """Return the object of the response after its end."""
        if self._last:
            body: record.Json = json.loads(self._last.partition(b"data: ")[2])["response"]
            return body
        refused = b"".join(message.get("body", b"") for message in self._refusal)
        return record.failed(queued, json.loads(refused)["error"] if refused else record.STOPPED)


RUNNING: set[Run] = set()
"""Those of this process."""


def follow(place: Place, after: int) -> ASGIApp:
    """Return an app that sends the events behind the number `after`."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        context, following, end = context_of(scope), after + 1, b""
        reply = Reply(send, context)
        keepalive = reply.kept_alive(gateway().settings.keepalive_seconds)
        async with keepalive, Disconnect(receive) as disconnect:
            await reply.begin()
            try:
                async for data, number in place.events(after):
                    if context.caller.require_key is not None:
                        context.caller.require_key()
                    await reply.event(data)
                    following = number
            except errors.ToolgateError as error:
                context.outcome.failed, context.outcome.code = True, error.code
                end = error_event(error.body()["error"], following)
            disconnect.ignore()
            await reply.end(end)

    return app


async def cancel(place: Place) -> StoredResponse | None:
    """Cancel a response that has not ended, wherever it is generated. Return it as it is stored.
    Raise ResponsesUnavailable."""
    ended = await place.find(whole=True)
    if ended is not None and record.is_active(ended):
        ended = await place.end(replace(ended, body=record.cancelled(ended.body)))
    for run in RUNNING:
        if run.place is not None and run.place.record == place.record:
            run.stopped.set()  # it has ended, in one way or the other
    return ended


async def stop_all() -> None:
    """End the responses of this process, as failed."""
    for run in RUNNING:
        run.stopped.set()
    if RUNNING:
        await asyncio.wait([run.task for run in RUNNING], timeout=3)
