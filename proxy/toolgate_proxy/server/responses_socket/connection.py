"""WebSocket connections at `/v1/responses`.

Each message `response.create` is answered by the events of a streamed response, one after another
(https://www.openresponses.org/specification, "WebSocket Transport"). The latest conversation stays
in memory for the connection, so that it can be continued with `store: false`.
"""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from dataclasses import dataclass

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from toolgate_core.errors import InvalidRequest, RateLimited, ToolgateError

from ...context import RequestContext
from ...litellm_host.deployments.router import are_all_ours
from ...response_store.connection_turns import ConnectionTurns
from ...state import gateway
from ..authorization import authenticate, route_path
from ..body_guard import check_bounds
from ..transport.body import LARGE, from_json
from .turn import Turn, error_message

PATH = re.compile(r"(?:/openai)?(?:/v1)?/responses")
MAX_SECONDS = 3_600
"""A connection ends after an hour, as the specification says."""
MAX_PENDING = 4
"""Messages that a client may send before the response to an earlier one has ended."""
NORMAL, POLICY = 1000, 1008
"""Codes with which a connection is closed."""
LIMIT_REACHED = "websocket_connection_limit_reached"


class ResponsesSocket:
    """ASGI middleware that serves these connections, if all models are ours. Otherwise they go to
    LiteLLM: the model is not known at the handshake."""

    def __init__(self, app: ASGIApp) -> None:
        """`app`: serves the requests."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _is_at(scope, PATH) or not are_all_ours():
            await self._app(scope, receive, send)
            return
        await receive()  # websocket.connect
        try:
            await authenticate(scope, RequestContext())
        except ToolgateError as error:
            await _deny(error, scope, send)
            return
        await send({"type": "websocket.accept"})
        connection = _Connection(self._app, scope, receive, send)
        await connection.run()


class _Connection:
    def __init__(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        self._app = app
        self._scope = scope
        self._receive = receive
        self._send = send
        self._gone = asyncio.Event()
        self._pending: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._turns = ConnectionTurns(gateway().settings.max_body_bytes)

    async def run(self) -> None:
        reading = asyncio.create_task(self._read())
        try:
            async with asyncio.timeout(MAX_SECONDS):
                while (message := await self._pending.get()) is not None:
                    if not self._gone.is_set():
                        await self._answer(message)
        except TimeoutError:
            await self._end(
                400, LIMIT_REACHED, "The connection is an hour old. Open a new one.", NORMAL
            )
        finally:
            self._gone.set()
            reading.cancel()

    async def _read(self) -> None:
        """Puts messages into the queue; None at the end of the connection."""
        try:
            while (message := await self._receive())["type"] == "websocket.receive":
                if self._pending.qsize() >= MAX_PENDING:
                    why = (
                        f"More than {MAX_PENDING} messages wait for their response. Send the next "
                        "one when a response has ended."
                    )
                    await self._end(429, RateLimited.code, why, POLICY)
                    return
                text, data = message.get("text"), message.get("bytes")
                self._pending.put_nowait(text.encode() if text is not None else data or b"")
        finally:
            self._gone.set()
            self._pending.put_nowait(None)

    async def _answer(self, message: bytes) -> None:
        large = len(message) > LARGE
        try:
            request = await asyncio.to_thread(read, message) if large else read(message)
        except ToolgateError as error:
            await self._text(error_message(error.status, error.body()))
            return
        turn = Turn(request.body, self._turns, self._text, self._gone)
        await turn.run(self._app, self._scope)
        if turn.failed and request.previous is not None and self._turns.before(request.previous):
            self._turns.forget()

    async def _text(self, text: str) -> None:
        """Does nothing if the client has disconnected."""
        if self._gone.is_set():
            return
        try:
            await self._send({"type": "websocket.send", "text": text})
        except OSError:  # uvicorn's ClientDisconnected
            self._gone.set()

    async def _end(self, status: int, code: str, message: str, closing: int) -> None:
        """Closes the connection with an error."""
        error = {"type": "invalid_request_error", "code": code, "message": message, "param": None}
        await self._text(error_message(status, {"error": error}))
        with suppress(OSError):
            await self._send({"type": "websocket.close", "code": closing})


@dataclass(frozen=True)
class Request:
    body: bytes
    """Of `POST /v1/responses`."""
    previous: str | None
    """`previous_response_id`."""


def read(message: bytes) -> Request:
    """The request of a message. `stream` has no effect: clients send either value. Raises
    InvalidRequest and RequestTooLarge."""
    event = from_json(message)
    if not isinstance(event, dict) or event.pop("type", None) != "response.create":
        raise InvalidRequest(
            "A message must be an object with the type `response.create`, and the fields of a "
            "request to create a response.",
            param="type",
        )
    check_bounds(event)
    # orjson writes no integers above 64 bits.
    body = json.dumps({**event, "stream": True}).encode()
    previous = event.get("previous_response_id")
    return Request(body, previous if isinstance(previous, str) else None)


def _is_at(scope: Scope, path: re.Pattern[str]) -> bool:
    return scope["type"] == "websocket" and path.fullmatch(route_path(scope)) is not None


async def _deny(error: ToolgateError, scope: Scope, send: Send) -> None:
    """Ends the handshake with the error, or with a 403 where the server supports only that."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": POLICY})
        return
    headers = [(b"content-type", b"application/json")]
    start = "websocket.http.response.start"
    await send({"type": start, "status": error.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": orjson.dumps(error.body())})
