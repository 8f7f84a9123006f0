"""A response that this process generates in the background."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolgate_core.errors import InvalidRequest, RateLimited, ToolgateError, UnsupportedParameter

from ...api.responses.output.stream import ENDS, error_event, first_events, numbered
from ...api.responses.state.history import unavailable
from ...api.surface import is_streamed
from ...background import in_background
from ...context import REQUEST_ID, SCOPE, context_of
from ...response_store.record import (
    STOPPED,
    StoredResponse,
    StoreUnavailable,
    cancelled,
    failed,
    sealed,
)
from ...state import gateway
from ..client import BACKGROUND, owner_of
from ..request_scope import RequestScope
from ..transport.body import READ, RESERVED, RequestBody
from ..transport.connection import Disconnect, Reply
from .place import CUT, FIRST, TOO_LARGE, Place, number_of

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
        context, self.sender, self.size = (
            context_of(scope),
            owner_of(scope, context_of(scope)),
            size,
        )
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
        self.stopped, self.ended, self._arrived = (asyncio.Event() for _ in range(3))
        self._queued: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._refusal: list[Message] = []
        self._pending: list[bytes] = []
        self._last, self._next, self._bytes = b"", 0, 0
        self._until: float | None = None
        """When nothing is tried any more. Set at the end."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond when the response is queued, or follow it if the request asks for a stream. If
        the client disconnects before, nothing is generated."""
        RUNNING.add(self)
        in_background(self._generate())
        async with Disconnect(receive) as disconnect:
            try:
                await asyncio.shield(self._queued)
            finally:
                disconnect.ignore()
                if not self._queued.done():
                    self.stopped.set()
            context_of(scope).show(context_of(self._scope))
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
        content, place = (
            (await sealed(store.sealer, owner, turn)).record,
            Place(store, owner, turn.id),
        )
        if len(content) > store.shared.most:
            raise TOO_LARGE
        try:
            is_new = await place.write("queued", FIRST, content)
        except StoreUnavailable as error:
            raise unavailable(error) from error
        if not is_new:
            message = "There is a response with this ID. Send another `request_id`."
            raise InvalidRequest(message, param="request_id")
        self.turn, self.place = turn, place
        self._add(b"".join(numbered(first_events(turn.body)[:2], 0)))
        self._writing = asyncio.create_task(self._write(place))
        self._queued.set_result(None)

    async def _generate(self) -> None:
        try:
            await self._app(self._scope, self._receive, self._send)
        finally:
            try:
                if self.turn is not None and self.place is not None:
                    await self._end(self.turn, self.place)
            finally:
                RUNNING.discard(self)
                self.ended.set()
                if not self._queued.done():
                    self._queued.set_result(None)

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

    async def _write(self, place: Place) -> None:
        """Write events as they come, and renew the lease, until the end."""
        while self._pending or self._until is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._arrived.wait(), place.lease / 3)
            self._arrived.clear()
            sent, self._pending, last = b"".join(self._pending), [], self._next - 1
            add = partial(place.add, "queued" if last < 2 else "in_progress", sent, last)
            if not await self._patiently(add):
                self.stopped.set()
                return
            await asyncio.sleep(FLUSH_SECONDS)

    async def _end(self, turn: StoredResponse, place: Place) -> None:
        self._until = time.monotonic() + (0 if self.stopped.is_set() else PATIENCE)
        self._arrived.set()
        await self._writing
        refused = b"".join(message.get("body", b"") for message in self._refusal)
        body = failed(turn.body, orjson.loads(refused)["error"] if refused else STOPPED)
        if self._last:
            body = json.loads(self._last.partition(b"data: ")[2])["response"]
        await self._patiently(partial(place.end, replace(turn, body=body)))

    async def _patiently(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """Return the result. While Redis does not respond, try again; return None at the end."""
        while True:
            try:
                return await work()
            except StoreUnavailable:
                if self._until is not None and time.monotonic() > self._until:
                    return None
                await asyncio.sleep(PAUSE)


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
                    if context.require_key is not None:
                        context.require_key()
                    await reply.event(data)
                    following = number
            except (ToolgateError, StoreUnavailable) as raised:
                error = unavailable(raised) if isinstance(raised, StoreUnavailable) else raised
                context.failed, context.error_code = True, error.code
                end = error_event(error.body()["error"], following)
            disconnect.ignore()
            await reply.end(end)

    return app


async def cancel(place: Place, response: StoredResponse) -> StoredResponse | None:
    """Cancel a response that has not ended, wherever it is generated. Return it as it is stored.
    Raise StoreUnavailable."""
    ended = await place.end(replace(response, body=cancelled(response.body)))
    for run in RUNNING:
        if run.place is not None and run.place.record == place.record:
            run.stopped.set()  # it has ended, in one way or the other
    return ended


async def stop_all() -> None:
    """End the responses of this process, as failed."""
    for run in RUNNING:
        run.stopped.set()
    with suppress(TimeoutError):
        async with asyncio.timeout(3):
            for run in [*RUNNING]:
                await run.ended.wait()
