"""WebSocket connections at `/v1/responses`.

Each message `response.create` is answered by the events of a streamed response, one after another
(https://www.openresponses.org/specification, "WebSocket Transport"). The latest conversation stays
in memory for the connection, so that it can be continued with `store: false`.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import ExitStack, suppress
from functools import cache, partial
from typing import Any

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolgate_core.errors import InvalidRequest, RateLimited, ToolgateError

from ..context import RequestContext
from ..keys.header import key_of
from ..litellm_host.deployments.router import are_all_ours
from ..response_store.connection_turns import ConnectionTurns
from ..state import gateway
from .authorization import check_key, route_path
from .body_guard import check_bounds
from .client import owner_of_body, sender_of
from .socket_turn import Turn, error_message
from .transport.body import LARGE, from_json, with_known_tools
from .transport.socket_protocol import SOCKET, BoundedSocket

PATH = re.compile(r"(?:/openai)?(?:/v1)?/responses")
MAX_SECONDS = 3_600
"""A connection ends after an hour, as the specification says."""
MAX_PENDING = 4
"""Messages that a client may send before the response to an earlier one has ended."""
NORMAL, POLICY = 1000, 1008
"""Codes with which a connection is closed."""
LIMIT_REACHED = "websocket_connection_limit_reached"


class ResponsesSocket:
    """ASGI middleware for all WebSocket connections: it bounds those of one key. It serves the ones
    at `/v1/responses` if all models are ours. All others go to LiteLLM: the model is not known at
    the handshake."""

    def __init__(self, app: ASGIApp) -> None:
        """`app`: serves the requests."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
            return
        ours = PATH.fullmatch(route_path(scope)) is not None and are_all_ours()
        context, socket = RequestContext(), scope[SOCKET]
        with ExitStack() as stack:
            try:
                if ours or key_of(scope["headers"]):
                    await check_key(scope, context)
                stack.enter_context(gateway().sockets.connection(context.key))
            except ToolgateError as error:
                await receive()  # websocket.connect
                await _deny(error, scope, send)
                return
            if (owner := owner_of_body(scope, context)) is not None:
                socket.resize = gateway().bodies.open(owner).resize
            if not ours:
                await self._app(scope, _counted(receive, socket), send)
                return
            await receive()  # websocket.connect
            await send({"type": "websocket.accept"})
            socket.as_bytes = True
            turns = stack.enter_context(gateway().conversations.connection(owner))
            sender = sender_of(scope, context)
            await _Connection(self._app, scope, receive, send, turns, sender).run()


class _Connection:
    def __init__(
        self,
        app: ASGIApp,
        scope: Scope,
        receive: Receive,
        send: Send,
        turns: ConnectionTurns,
        owner: str | None,
    ) -> None:
        self._app = app
        self._owner = owner
        self._scope = scope
        self._receive = receive
        self._send = send
        self._socket: BoundedSocket = scope[SOCKET]
        self._gone = asyncio.Event()
        self._pending: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._turns = turns

    async def run(self) -> None:
        reading = asyncio.create_task(self._read())
        try:
            async with asyncio.timeout(MAX_SECONDS):
                while await self._answer_next():
                    self._socket.hold(False)
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
            while (message := _content(await self._receive())) is not None:
                if self._pending.qsize() >= MAX_PENDING:
                    why = (
                        f"More than {MAX_PENDING} messages wait for their response. Send the next "
                        "one when a response has ended."
                    )
                    await self._end(429, RateLimited.code, why, POLICY)
                    return
                self._pending.put_nowait(message)
                del message  # it may be large, and the next one may take long
        finally:
            self._gone.set()
            self._pending.put_nowait(None)

    async def _answer_next(self) -> bool:
        """Returns whether the connection has not ended."""
        message = await self._pending.get()
        if message is None:
            return False
        if self._gone.is_set():
            return True
        self._socket.hold(True)
        large = len(message) > LARGE
        free_memory = cache(partial(self._socket.finish, len(message)))  # has an effect once
        try:
            parse = partial(read, message, self._owner)
            body = await asyncio.to_thread(parse) if large else parse()
            turn = Turn(body, len(message), self._turns, self._text, self._gone, free_memory)
            previous = body.get("previous_response_id")
            del message, body, parse
            await turn.run(self._app, self._scope)
        except ToolgateError as error:
            await self._text(error_message(error.status, error.body()))
            return True
        finally:
            free_memory()
        if turn.failed and isinstance(previous, str) and self._turns.before(previous):
            self._turns.forget()
        return True

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


def read(message: bytes, owner: str | None) -> dict[str, Any]:
    """The body of `POST /v1/responses` that a message stands for. `stream` has no effect: clients
    send either value. `owner`: the sender. Raises InvalidRequest and RequestTooLarge."""
    event = with_known_tools(message, owner, check_bounds) or from_json(message)
    if not isinstance(event, dict) or event.pop("type", None) != "response.create":
        raise InvalidRequest(
            "A message must be an object with the type `response.create`, and the fields of a "
            "request to create a response.",
            param="type",
        )
    check_bounds(event)
    event["stream"] = True
    return event


def _content(message: Message) -> bytes | None:
    """None if it ends the connection."""
    if message["type"] != "websocket.receive":
        return None
    text, data = message.get("text"), message.get("bytes")
    return text.encode() if text is not None else data or b""


def _counted(receive: Receive, socket: BoundedSocket) -> Receive:
    """A `receive` whose messages no longer count once they are read."""

    async def read() -> Message:
        message = await receive()
        socket.finish(len(_content(message) or b""))
        return message

    return read


async def _deny(error: ToolgateError, scope: Scope, send: Send) -> None:
    """Ends the handshake with the error, or with a 403 where the server supports only that."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": POLICY})
        return
    headers = [(b"content-type", b"application/json")]
    start = "websocket.http.response.start"
    await send({"type": start, "status": error.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": orjson.dumps(error.body())})
