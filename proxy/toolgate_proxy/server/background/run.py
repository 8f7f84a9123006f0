"""A response that this process generates in the background."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolgate_core.errors import InvalidRequest, RateLimited, ToolgateError, UnsupportedParameter

from ...api.responses.output.stream import ENDS, error_event, first_events, numbered
from ...api.responses.state import unavailable
from ...api.surface import is_streamed
from ...context import REQUEST_ID, SCOPE, context_of
from ...response_store import record
from ...response_store.record import StoredResponse, StoreUnavailable
from ...state import gateway
from ..client import BACKGROUND, owner_of
from ..request_scope import RequestScope
from ..transport.body import READ, RESERVED, RequestBody
from ..transport.connection import Disconnect, Reply
from .place import CUT, FIRST, TOO_LARGE, WHOLE, Place, number_of

MOST_RUNNING = 64
"""Most responses of one owner that a process generates at once."""
MOST_BYTES = 16_000_000
"""Most bytes of the events of one response."""
PATIENCE, PAUSE, FLUSH_SECONDS = 60.0, 1.0, 0.05
"""Seconds for which the end of a response is kept while Redis does not respond, between two
attempts, and between two writes of events."""
LAST = tuple(f"event: {kind}\n".encode() for kind in ENDS.values())


class Run:
    """ASGI app. `app` serves the request with the body `values`, of `size` bytes."""

    def __init__(self, app: ASGIApp, scope: Scope, values: Mapping[str, Any], size: int) -> None:
        """Raise RateLimited."""
        context = context_of(scope)
        self.sender, self.size = owner_of(scope, context), size
        mine = [run.size for run in RUNNING if run.sender == self.sender]
        if len(mine) >= MOST_RUNNING or sum(mine) + size > gateway().bodies.limit:
            raise RateLimited(
                f"{len(mine)} responses in the background of this API key have not ended. At most "
                f"{MOST_RUNNING} are generated at once, with bodies of {gateway().bodies.limit:,} "
                "bytes together. Send the request again when one of them has ended.",
                retry_after=5,
            )
        body = {"request_id": secrets.token_hex(16), **values}
        if isinstance(body.get("stream"), bool | None):
            body["stream"] = True  # others are refused
        self._app, self._stream = RequestScope(app), is_streamed(values)
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
        self._pending: list[bytes] = []
        self._last, self._next, self._bytes = b"", 0, 0
        self._final: StoredResponse | None = None
        self._until = float("inf")
        self.task = asyncio.create_task(self._generate())
        RUNNING.add(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond when the response is queued, or follow it if the request asks for a stream. If
        the client disconnects before, nothing is generated."""
        async with Disconnect(receive) as disconnect:
            try:
                await self._known.wait()
            finally:
                disconnect.ignore()
                if not self._known.is_set():
                    self.stopped.set()
            context_of(scope).notes.show(context_of(self._scope).notes)
            for message in self._refusal if self.turn is None else ():
                await send(message)
            if self.turn is not None and not self._stream:
                await Reply(send, context_of(scope)).json(self.turn.body)
        if self.place is not None and self._stream and not disconnect.happened:
            await follow(self.place, -1)(scope, receive, send)

    async def queue(self, owner: str, turn: StoredResponse) -> None:
        """Store a response before it is generated, unless the request goes on to another model.
        Raise ToolgateError."""
        store = gateway().responses
        if self.turn is not None:
            return
        if store.shared is None or not store.shared.most:
            raise UnsupportedParameter(
                "'background' needs responses that are stored in Redis, but TOOLGATE_REDIS_URL or "
                "TOOLGATE_FLEET_SECRET is not set, or TOOLGATE_RESPONSES_QUOTA is 0. Remove it.",
                param="background",
            )
        made, place = await record.sealed(store.sealer, owner, turn), Place(store, owner, turn.id)
        if len(made.record) > store.shared.most:
            raise TOO_LARGE
        try:
            shown = await record.sealed(store.sealer, owner, replace(turn, input=()))
            is_new = await place.write("queued", FIRST, shown.record)
            is_new = is_new and await place.write("queued", WHOLE, made.record)
        except StoreUnavailable as error:
            raise unavailable(error) from error
        if not is_new:
            message = "There is a response with this ID. Send another `request_id`."
            raise InvalidRequest(message, param="request_id")
        self.turn, self.place = turn, place
        self._add(b"".join(numbered(first_events(turn.body)[:2], 0)))
        self._writing = asyncio.create_task(self._write(place))
        self._known.set()

    async def _generate(self) -> None:
        try:
            await self._app(self._scope, self._receive, self._send)
        finally:
            try:
                if self.turn is not None:
                    self._end(self.turn)
                    await self._writing
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
            number = number_of(event, self._next)
            if event.startswith(LAST):
                self._last = event
            elif number >= self._next and self._bytes <= MOST_BYTES:
                self._next, self._bytes = number + 1, self._bytes + len(event)
                self._pending.append(event + b"\n\n" if self._bytes <= MOST_BYTES else CUT)
        self._arrived.set()

    def _end(self, turn: StoredResponse) -> None:
        refused = b"".join(message.get("body", b"") for message in self._refusal)
        error = orjson.loads(refused)["error"] if refused else record.STOPPED
        body = record.failed(turn.body, error)
        if self._last:
            body = json.loads(self._last.partition(b"data: ")[2])["response"]
        self._until = time.monotonic() + (2 if self.stopped.is_set() else PATIENCE)
        self._final = replace(turn, body=body)
        self._arrived.set()

    async def _write(self, place: Place) -> None:
        """Write events as they come, and then the record. Renew the lease until then."""
        while time.monotonic() < self._until:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._arrived.wait(), place.lease / 3)
            sent, pause = [*self._pending], FLUSH_SECONDS
            try:
                if self._final is not None and not sent:
                    await place.end(self._final)
                    return
                status = "queued" if self._next < 3 else "in_progress"
                if not await place.add(status, b"".join(sent), self._next - 1):
                    self.stopped.set()
                del self._pending[: len(sent)]
            except StoreUnavailable:
                pause = PAUSE
            if self._final is None and not self._pending:
                self._arrived.clear()
            await asyncio.sleep(pause)


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
            except (ToolgateError, StoreUnavailable) as raised:
                error = unavailable(raised) if isinstance(raised, StoreUnavailable) else raised
                context.outcome.failed, context.outcome.code = True, error.code
                end = error_event(error.body()["error"], following)
            disconnect.ignore()
            await reply.end(end)

    return app


async def cancel(place: Place) -> StoredResponse | None:
    """Cancel a response that has not ended, wherever it is generated. Return it as it is stored.
    Raise StoreUnavailable."""
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
