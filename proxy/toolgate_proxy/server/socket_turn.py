"""One message of a connection as an HTTP request, and its response as messages.

The request goes through the whole gateway: authentication, limits, log, metrics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from starlette.types import ASGIApp, Message, Scope

from ..response_store.connection_turns import ConnectionTurns
from .client import CONNECTION
from .transport.body import READ, RESERVED, RequestBody

OF_HANDSHAKE = (b"connection", b"upgrade", b"content-", b"transfer-encoding", b"sec-websocket-")
"""Beginnings of the names of headers that belong to the handshake."""
REQUEST_ID = b"x-request-id"
"""Each request has one of its own."""
DATA = b"data: "
STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "requests": 429,
    "tokens": 429,
    "service_unavailable_error": 503,
    "timeout_error": 504,
}
"""By type of an error after a keep-alive, whose HTTP status was 200; 500 for others."""
SendText = Callable[[str], Awaitable[None]]


class Turn:
    """`body`: of `POST /v1/responses`; `size`: of its message, in bytes. `gone`: is set when the
    client has disconnected. `free_memory`: is called when the request has ended."""

    def __init__(
        self,
        body: dict[str, Any],
        size: int,
        turns: ConnectionTurns,
        send: SendText,
        gone: asyncio.Event,
        free_memory: Callable[[], None],
    ) -> None:
        self._body: RequestBody | None = RequestBody.of_values(body, size)
        """Until the request has begun."""
        self._turns = turns
        self._send_text = send
        self._gone = gone
        self._free_memory = free_memory
        self._status = 0
        self._waiting = b""
        """The beginning of an event or of an error."""
        self._size = size
        self._read = False
        self.failed = True
        """Until an event has ended the response as completed or incomplete."""
        self._refused = False
        """An event `error` was sent. It is the last one of this mode."""

    async def run(self, app: ASGIApp, handshake: Scope) -> None:
        await app(self._scope(handshake), self._receive, self._send)
        if self._status != 200:
            await self._send_text(error_message(self._status, orjson.loads(self._waiting)))
        self._turns.grow(self._size)

    def _scope(self, handshake: Scope) -> Scope:
        headers = [
            (name, value)
            for name, value in handshake["headers"]
            if not name.startswith(OF_HANDSHAKE) and name != REQUEST_ID
        ]
        body, self._body = self._body, None
        return {
            **handshake,
            "type": "http",
            "method": "POST",
            "scheme": {"wss": "https"}.get(handshake["scheme"], "http"),
            "headers": [*headers, (b"content-type", b"application/json")],
            "extensions": {},
            CONNECTION: self._turns,
            READ: body,
            RESERVED: self._free_memory,
        }

    async def _receive(self) -> Message:
        if not self._read:
            self._read = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            return
        self._waiting += message.get("body", b"")
        if self._status != 200:
            return
        *events, self._waiting = self._waiting.split(b"\n\n")
        for event in events:
            await self._forward(event)

    async def _forward(self, event: bytes) -> None:
        """Keep-alives have no data."""
        data = event.partition(b"\n")[2] if event.startswith(b"event: ") else event
        if not data.startswith(DATA) or self._refused:
            return
        text = data.removeprefix(DATA)
        if event.startswith((b"event: response.completed", b"event: response.incomplete")):
            self.failed = False
            self._size += len(text)
        if event.startswith(b"event: error"):
            self._refused = True
            error = orjson.loads(text)["error"]
            text = error_message(STATUSES.get(error["type"], 500), {"error": error}).encode()
        await self._send_text(text.decode())


def error_message(status: int, body: dict[str, Any]) -> str:
    """The `error` event of this mode, which has the HTTP status."""
    return orjson.dumps({"type": "error", "status": status, "error": body["error"]}).decode()
