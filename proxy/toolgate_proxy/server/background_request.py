"""A request whose response is generated in the background.

It goes through the gateway a second time, on its own: limits, log and metrics are those of that
request. The client gets an answer when the response is queued.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolgate_core.errors import InternalFault

from ..api.surface import is_streamed
from ..background import in_background
from ..context import REQUEST_ID, SCOPE, context_of
from ..response_store.background import BackgroundResponse
from ..state import gateway
from .client import BACKGROUND
from .live_replay import LiveEvents, Replay
from .request_scope import RequestScope
from .transport.body import READ, RESERVED, RequestBody
from .transport.connection import Disconnect, Reply


class BackgroundRequest:
    """`values`, `size`: of the body. `app`: serves the request."""

    def __init__(self, app: ASGIApp, scope: Scope, values: Mapping[str, Any], size: int) -> None:
        self._app = RequestScope(app)
        self._outer = scope
        self._is_stream = is_streamed(values)
        self._response = BackgroundResponse(gateway().responses.background)
        self._scope = self._scope_of(scope, values, size)
        self._messages: list[Message] = []
        """An error before the first event."""

    async def run(self, receive: Receive, send: Send) -> None:
        """Respond when the response is queued, or follow it if the request asks for a stream. If
        the client disconnects before, nothing is generated."""
        context, queued = context_of(self._outer), self._response.queued
        # Those of the other request have them.
        context.model = context.free_memory = None
        in_background(self._generate())
        async with Disconnect(receive) as disconnect:
            try:
                body = await asyncio.shield(queued)
            finally:
                disconnect.ignore()
                if not queued.done():
                    self._response.stopped.set()
            context.show(context_of(self._scope))
            if body is None:
                await self._forward_error(send)
            elif not self._is_stream:
                await Reply(send, context).json(body)
        live = self._response.live
        if disconnect.happened or not self._is_stream or live is None:
            return
        keepalive = gateway().settings.keepalive_seconds
        await Replay(LiveEvents(live, -1), context, keepalive)(self._outer, receive, send)

    def _scope_of(self, scope: Scope, values: Mapping[str, Any], size: int) -> Scope:
        context = context_of(scope)
        body = {"request_id": secrets.token_hex(16), **values}
        if isinstance(body.get("stream"), bool | None):
            body["stream"] = True  # others are refused
        headers = [each for each in scope["headers"] if each[0] != REQUEST_ID.encode()]
        if context.request_id is not None:
            headers.append((REQUEST_ID.encode(), context.request_id.encode()))
        inner = {
            **scope,
            "headers": headers,
            READ: RequestBody.of_values(body, size),
            RESERVED: context.free_memory,
            BACKGROUND: self._response,
        }
        inner.pop(SCOPE, None)
        return inner

    async def _generate(self) -> None:
        try:
            await self._app(self._scope, self._receive, self._send)
        finally:
            await self._response.close(self._error())

    async def _receive(self) -> Message:
        await self._response.stopped.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        """Keep an error. The events of a response are read from its log."""
        is_start = message["type"] == "http.response.start"
        if (message["status"] != 200) if is_start else self._messages:
            self._messages.append(message)

    def _error(self) -> dict[str, Any] | None:
        """Return the error object, if the request failed before the first event."""
        content = b"".join(message.get("body", b"") for message in self._messages)
        return orjson.loads(content)["error"] if content else None

    async def _forward_error(self, send: Send) -> None:
        if not self._messages:
            raise InternalFault("The response was not generated. Send the request again.")
        for message in self._messages:
            await send(message)
