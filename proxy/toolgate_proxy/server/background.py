"""A response of the background: its process generates it (`BackgroundRun`), and every gateway reads
it in Redis (`Place`).

`<record>`         as of every stored response: written once, by whoever ends the response
`<record>:queued`  list: the queued response without its input, which polls do not read, and with it
`<record>:events`  list: its events, in the order of their numbers; sealed like the queued response
`<record>:lease`   empty; it expires soon after the process that generates the response dies. Later
                   "ended", as long as the events are kept

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
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolgate_core import errors

from ..api.responses.output import ENDS, error_event, first_events, last_event, numbered
from ..api.surface import is_streamed
from ..context import REQUEST_ID, SCOPE, RequestContext, context_of
from ..limits.key_bounds import SMALL
from ..redis_client import Script
from ..response_store import record
from ..response_store.store import ResponseStore
from ..sealing import OwnerSeal, SealBroken
from ..state import gateway
from .authorization import BACKGROUND, owner_of
from .body import READ, RESERVED, RequestBody
from .connection import Disconnect, Reply
from .request_scope import RequestScope

MOST_RUNNING, MOST_BYTES = 64, 16_000_000
"""Most responses of one owner that a process generates at once, since each counts as at least this
part of the bytes of bodies, and bytes of the events of one."""
PATIENCE, PAUSE = 60.0, 1.0
"""Seconds to keep the end of a response while Redis does not respond, and between two attempts."""
WRITE_SECONDS, READ_SECONDS = 0.05, 0.1
"""Between two writes of events, and between two attempts to read more."""
LIFE_MS, ENDED_MS = 86_400_000, 600_000
"""How long events are kept after the last write, and after the end."""
WRITE = Script(__package__, "background.lua")
NUMBER = re.compile(rb'"sequence_number":(\d+)')
RUNS = b""
"""The lease of a response that is generated."""
LAST = tuple(f"event: {kind}\n".encode() for kind in ENDS.values())
NOT_KEPT = errors.InvalidRequest(
    "The events of this response are not kept: they were too large, or it ended more than ten "
    "minutes ago. Retrieve the response without 'stream'.",
    param="stream",
)
TOO_LARGE = errors.RequestTooLarge(
    "The response is too large to be stored (8 MB, compressed), so it cannot be generated in the "
    "background. Shorten 'input'."
)


class Place:
    """The entries of one background response in Redis. Each method raises ResponsesUnavailable."""

    lease = 15.0
    """Seconds after which a process that writes nothing counts as gone."""

    def __init__(self, store: ResponseStore, owner: str, response_id: str) -> None:
        assert store.shared is not None
        self._store, self._redis, self._named = store, store.shared, (owner, response_id)
        self._seal, self._purpose = OwnerSeal(store.sealer, owner), f"response events {response_id}"
        self.record = store.shared.record_of(owner, response_id)
        names = (f"{self.record}:{name}" for name in ("queued", "events", "lease"))
        self._queued, self._events, self._lease = names

    async def queue(self, turn: record.StoredResponse) -> None:
        """Write a response before it is generated. Raise RequestTooLarge, and InvalidRequest if
        there is one with its ID."""
        sealer, turns = self._store.sealer, (replace(turn, input=()), turn)
        records = [(await record.sealed(sealer, self._named[0], each)).record for each in turns]
        if max(map(len, records)) > self._redis.most:
            raise TOO_LARGE
        if not await self._write(self._queued, 0, records):
            message = "There is a response with this ID. Send another 'request_id'."
            raise errors.InvalidRequest(message, param="request_id")

    async def add(self, events: Sequence[bytes], first: int) -> bool:
        """Write events, the first of which has the number `first`, and renew the lease. Return
        False if the response has ended."""
        sealed = await record.apart(sum(map(len, events)) > record.IN_THREAD, self._sealed, events)
        return await self._write(self._events, first, sealed)

    async def end(self, ended: record.StoredResponse) -> record.StoredResponse | None:
        """Write the record, unless the response has ended before. Return it as it is stored."""
        reason = await self._store.put(self._named[0], ended)
        if reason == "too_large":
            body = {**ended.body, "output": [], "completed_at": None}
            ended = replace(ended, body=record.failed(body, TOO_LARGE.body()["error"]))
            reason = await self._store.put(self._named[0], ended)
        if reason not in (None, "exists"):
            raise record.unavailable("Redis does not respond or refuses the write")
        kept = ("SET", self._lease, "ended", "PX", ENDED_MS), ("PEXPIRE", self._events, ENDED_MS)
        await self._redis.commands(("DEL", self._queued), *kept)
        return ended if reason is None else await self._store.find(*self._named)

    async def find(self, *, whole: bool = False) -> record.StoredResponse | None:
        """Return the response, which has failed if its process is gone. It has its input if it has
        ended, or for `whole`."""
        asked = ("GET", self._lease), ("LLEN", self._events)
        lease, events = await self._redis.commands(*asked)
        at = 1 if whole or lease != RUNS else 0
        [sealed] = await self._redis.commands(("LINDEX", self._queued, at))
        if sealed is None:
            return await self._store.find(*self._named)
        for queued in (await self._store.opened(*self._named, [sealed])).turns:
            if lease != RUNS:
                return await self.end(
                    replace(queued, body=record.failed(queued.body, record.STOPPED))
                )
            status = "queued" if events < 3 else "in_progress"
            return replace(queued, body={**queued.body, "status": status})
        return None

    async def cancel(self) -> record.StoredResponse | None:
        """End a response that has not ended as cancelled. Return it as it is stored."""
        response = await self.find(whole=True)
        if response is not None and record.is_active(response):
            response = await self.end(
                replace(response, body={**response.body, "status": "cancelled"})
            )
        for run in RUNNING:
            if run.place is not None and run.place.record == self.record:
                run.stopped.set()  # other processes find it when they write
        return response

    async def has_events(self) -> bool:
        """Return whether there are events, or will be."""
        return bool((await self._redis.commands(("EXISTS", self._lease, self._events)))[0])

    async def events(self, after: int) -> AsyncIterator[bytes]:
        """Yield the events behind the number `after` as they are written, to the last one. Raise
        InvalidRequest and ResponseNotFound."""
        following = after + 1
        while True:
            lease, length, sealed = await self._redis.commands(
                ("GET", self._lease),
                ("LLEN", self._events),
                ("LRANGE", self._events, following, following + 63),
            )
            for event in sealed:
                following += 1
                yield self._opened(event)
            if not sealed and lease != RUNS:
                response = await self.find()
                if response is None:
                    raise errors.ResponseNotFound("The response was deleted, or lost by Redis.")
                if not record.is_active(response):
                    break
            if not sealed:
                await asyncio.sleep(READ_SECONDS)
        if after < max(following - 1, length):
            yield numbered([last_event(response.body)], following)[0]

    async def _write(self, name: str, first: int, sealed: Sequence[bytes]) -> bool:
        keys, lease = [self.record, self._queued, self._lease, name], round(self.lease * 1000)
        return bool(await self._redis.run(WRITE, keys, lease, LIFE_MS, first, *sealed))

    def _sealed(self, events: Sequence[bytes]) -> list[bytes]:
        packed = [each and zlib.compress(each, 1) for each in events]
        return [each and self._seal.seal(each, purpose=self._purpose) for each in packed]

    def _opened(self, sealed: bytes) -> bytes:
        try:
            return zlib.decompress(self._seal.open(sealed, purpose=self._purpose))
        except SealBroken:  # or empty
            raise NOT_KEPT from None


class BackgroundRun:
    """ASGI app that generates a response in the background. `app` serves the request with the body
    `values`, of `size` bytes, a second time and on its own: limits, log and metrics are those of
    that request."""

    def __init__(
        self, app: ASGIApp, scope: Scope, context: RequestContext, values: record.Json, size: int
    ) -> None:
        """Raise RateLimited."""
        self._context, bodies = context, gateway().bodies
        self._stream = is_streamed(values)
        self._room = bodies.open(f"in the background: {owner_of(context)}")
        self._room.resize(max(size, bodies.limit // MOST_RUNNING, SMALL + 1))
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
        self.turn: record.StoredResponse | None = None
        self.place: Place | None = None
        self.stopped, self._known = asyncio.Event(), asyncio.Event()
        """Set when the generation must end, and when the response is queued or refused."""
        self._refusal: list[Message] = []
        self._events, self._last, self._next, self._bytes = list[bytes](), b"", 0, 0
        self.task = asyncio.create_task(self._run(RequestScope(app)))
        RUNNING.add(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond when the response is queued, or follow it if the request asks for a stream. If
        the client disconnects before, nothing is generated."""
        context = self._context
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
            await follow(self.place, -1, context)(scope, receive, send)

    async def queue(self, owner: str, turn: record.StoredResponse) -> None:
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
        generating, due = asyncio.ensure_future(app(self._scope, self._receive, self._send)), 0.0
        try:
            while not generating.done():
                await asyncio.wait({generating}, timeout=WRITE_SECONDS)
                if self.place is not None and (self._events or time.monotonic() > due):
                    due = time.monotonic() + self.place.lease / 15
                    with suppress(errors.ResponsesUnavailable):
                        await self._write(self.place)
            until = time.monotonic() + PATIENCE
            while self.turn and self.place and time.monotonic() < until:
                with suppress(errors.ResponsesUnavailable):
                    await self._write(self.place)
                    await self.place.end(replace(self.turn, body=self._ended(self.turn.body)))
                    return
                await asyncio.sleep(PAUSE)
        finally:
            RUNNING.discard(self)
            self._room.close()
            self._known.set()

    async def _write(self, place: Place) -> None:
        """Write the events so far. If the response has ended elsewhere, end the generation."""
        events = [*self._events]
        if not await place.add(events, self._next - len(events)):
            self.stopped.set()
        del self._events[: len(events)]

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
            match = NUMBER.search(event)
            if event.startswith(LAST):
                self._last = event
            elif match and int(match[1]) >= self._next and self._bytes <= MOST_BYTES:
                self._next, self._bytes = int(match[1]) + 1, self._bytes + len(event)
                # An empty one is in place of all further events.
                self._events.append(event + b"\n\n" if self._bytes <= MOST_BYTES else b"")

    def _ended(self, queued: record.Json) -> record.Json:
        """Return the object of the response after its end."""
        if self._last:
            body: record.Json = json.loads(self._last.partition(b"data: ")[2])["response"]
            return body
        refused = b"".join(message.get("body", b"") for message in self._refusal)
        return record.failed(queued, json.loads(refused)["error"] if refused else record.STOPPED)


RUNNING: set[BackgroundRun] = set()
"""Those of this process."""


def follow(place: Place, after: int, context: RequestContext) -> ASGIApp:
    """Return an app that sends the events behind the number `after`."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        following, end = after + 1, b""
        reply = Reply(send, context)
        keepalive = reply.kept_alive(gateway().settings.keepalive_seconds)
        async with keepalive, Disconnect(receive) as disconnect:
            await reply.begin()
            try:
                async for data in place.events(after):
                    if context.caller.require_key is not None:
                        context.caller.require_key()
                    await reply.event(data)
                    following += 1
            except errors.ToolgateError as error:
                context.outcome.failed, context.outcome.code = True, error.code
                end = error_event(error.body()["error"], following)
            disconnect.ignore()
            await reply.end(end)

    return app


async def stop_all() -> None:
    """End the responses of this process, as failed."""
    for run in RUNNING:
        run.stopped.set()
    if RUNNING:
        await asyncio.wait([run.task for run in RUNNING], timeout=3)
