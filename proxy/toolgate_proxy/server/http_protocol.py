"""uvicorn's HTTP protocol with limits on the time and size of each part of a request.

At any time a connection has a deadline for the client to send what is awaited: headers, body and
trailers, or the next request. While the client does not read the response, it has one for that as
well. uvicorn alone waits for ever for the rest of a request, and for a client to read. The limits
on the body are enforced once more by `body.read`, which can send a response; here they also hold
for a body that is not read. After a response that does not need the body (a 401), the rest of the
body is read and discarded, up to the time limit and twice the limit on its size, because closing
the connection at once could destroy the response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from ..settings import settings

MAX_HEADER_BYTES = 65_536
"""Maximum bytes of a request line, headers and trailers. Each field counts FIELD_BYTES more."""
FIELD_BYTES = 32
"""Cost of one header besides its name and value, as HTTP/2 counts it (RFC 9113, section 6.5.2)."""
MAX_PIPELINED = 16
"""Requests that a client may send before the response to an earlier one has ended."""
HEADER_SECONDS = 20.0
"""For the headers of a request, and for the handshake of a WebSocket. Clients send them at once;
who does not holds a connection for nothing."""
WRITE_SECONDS = 120.0
"""For a client to read what was sent to it: as long as it may take to send a body by default
(TOOLGATE_BODY_TIMEOUT), because a network is as slow in both directions."""
GRACE = 5.0
"""Seconds after the time limit of a body in which the 408 is sent before the connection closes."""
RESPONSE_SECONDS = 6 * 3600.0
"""Seconds after which the connection of a response is closed. The time limits of backends end a
response before; this one holds for whatever has none."""

REFUSAL = (
    b"HTTP/1.1 %s\r\ncontent-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s"
)
TOO_LARGE = b"431 Request Header Fields Too Large", b"The headers are too large. Send fewer."
INVALID = b"400 Bad Request", b"Invalid HTTP request received."
AMBIGUOUS = (
    b"400 Bad Request",
    b"HTTP/1.1 needs one header `host`, and HTTP/1.0 has no `transfer-encoding`.",
)
TUNNEL = b"501 Not Implemented", b"The gateway opens no tunnels. Send the request without CONNECT."
UPGRADE_HEADERS = frozenset({b"upgrade", b"http2-settings"})


class _Refused(Exception):
    """Ends the parser. `args`: status line and message."""


class TimedProtocol(HttpToolsProtocol):
    """Closes connections whose request does not arrive, or whose response is not read, in time."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        configured = settings()
        self._header_seconds = HEADER_SECONDS
        self._body_seconds = configured.body_timeout + GRACE
        self._write_seconds = WRITE_SECONDS
        self._most_discarded = 2 * configured.max_body_bytes
        self._awaiting = Deadline(self.loop, self._expired)
        """For what the client must send next, or for the response."""
        self._reading = Deadline(self.loop, self._abort)
        """For the client to read what was sent to it."""
        self._part: Literal["headers", "body"] | None = None
        """The part of a request that is being received. Trailers belong to the body."""
        self._header_bytes = 0
        self._body_bytes = 0
        self._events = 0
        """Calls of the parser."""
        self._unparsed = 0
        """Bytes that were received since the parser's last call: of a field without end."""
        self._responding: RequestResponseCycle | None = None
        """The latest request whose response has begun to be made."""
        self._refusal: tuple[bytes, bytes] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._awaiting.set(self._header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._awaiting.clear()
        self._reading.clear()
        if self._responding is not None and not self._responding.response_complete:
            # uvicorn tells only the request that arrived last.
            self._responding.disconnected = True
            self._responding.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        events = self._events
        self._unset_keepalive_if_required()
        self._parse(data)
        self._unparsed = self._unparsed + len(data) if self._events == events else 0
        if self._unparsed > MAX_HEADER_BYTES and not self.transport.is_closing():
            self._refuse(*TOO_LARGE)

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as pause:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
            else:
                # The parser would take the body for another protocol. A new one reads it all again.
                again = self._without_upgrade() + data[pause.args[0] :]
                self.parser = HttpRequestParser(self)
                self._parse(again)
        except HttpParserError:
            self._refuse(*(self._refusal or INVALID))

    def _without_upgrade(self) -> bytes:
        """Return the headers that were read, without those that would be for the other protocol."""
        version = self.parser.get_http_version().encode()
        lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, version)]
        lines += [b"%s: %s" % each for each in self.headers if each[0] not in UPGRADE_HEADERS]
        return b"\r\n".join([*lines, b"", b""])

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reading.set(self._write_seconds)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._reading.clear()

    # What the parser finds

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._events += 1
        self._part = "headers"
        self._header_bytes = self._body_bytes = 0
        self._awaiting.set(self._header_seconds)

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count_header(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """The parser calls it for trailers as well. They are dropped: a server in front of the
        gateway that checks headers does not check trailers."""
        self._count_header(len(name) + len(value) + FIELD_BYTES)
        if self._part == "headers":
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._events += 1
        if self._is_ambiguous():
            raise self._refused(*AMBIGUOUS)
        if self.parser.get_method() == b"CONNECT":
            # The parser takes what follows for another protocol, even a body.
            raise self._refused(*TUNNEL)
        if self.parser.should_upgrade() and not self._should_upgrade():
            return
        super().on_headers_complete()
        self._part = "body"
        self._awaiting.set(self._body_seconds)
        if len(self.pipeline) > MAX_PIPELINED:
            raise self._refused(b"400 Bad Request", b"Too many requests at once.")

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self._events += 1
        self._body_bytes += len(body)
        if self._body_bytes > self._most_discarded and self.cycle.response_complete:
            self.transport.close()

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade() and not self._should_upgrade():
            return
        super().on_message_complete()
        self._events += 1
        self._part = None
        self._await_next()

    def on_response_complete(self) -> None:
        queued = bool(self.pipeline)
        super().on_response_complete()
        self._unset_keepalive_if_required()  # any byte ends that timer, so ours replaces it
        if self._part is None:
            self._await_next()
        elif queued:
            self._awaiting.set(self._body_seconds)

    def handle_websocket_upgrade(self) -> None:
        self._awaiting.clear()
        self._reading.clear()
        super().handle_websocket_upgrade()
        # The library of WebSockets does not answer a handshake whose headers it refuses.
        socket: Any = self.transport.get_protocol()
        self.loop.call_later(HEADER_SECONDS, self._end_handshake, socket)

    def _end_handshake(self, socket: Any) -> None:
        if not socket.handshake_complete:
            self._abort()

    def _should_upgrade(self) -> bool:
        """Any other upgrade is ignored (RFC 9110, section 7.8). uvicorn's WebSocket protocol does
        not answer other requests, nor one that waits for the response to an earlier one."""
        parser = self.parser
        is_handshake = parser.get_method() == b"GET" and parser.get_http_version() == "1.1"
        if not is_handshake or self._has_body() or not self._is_idle():
            return False
        return super()._should_upgrade()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._responding = cycle
        if cycle.scope["http_version"] == "1.0":
            app = ended_by_closing(app, cycle)
        super()._start_asgi_task(cycle, app)

    # Limits

    def _await_next(self) -> None:
        """After a whole request: its response, or the next request."""
        self._awaiting.set(self.timeout_keep_alive if self._is_idle() else RESPONSE_SECONDS)

    def _is_idle(self) -> bool:
        """Return whether every request was answered."""
        return self._responding is None or (
            self._responding.response_complete and not self.pipeline
        )

    def _is_ambiguous(self) -> bool:
        """Return whether a proxy in front of the gateway may read another request (RFC 9112,
        sections 3.2 and 6.1)."""
        names = [name for name, _ in self.headers]
        if self.parser.get_http_version() == "1.1":
            return names.count(b"host") != 1
        return b"transfer-encoding" in names

    def _has_body(self) -> bool:
        return any(
            name == b"transfer-encoding" or (name == b"content-length" and value.strip() != b"0")
            for name, value in self.headers
        )

    def _count_header(self, size: int) -> None:
        self._events += 1
        self._header_bytes += size
        if self._header_bytes > MAX_HEADER_BYTES:
            raise self._refused(*TOO_LARGE)

    def _refused(self, status: bytes, message: bytes) -> _Refused:
        """Raise it in a method that the parser calls."""
        self._refusal = status, message
        return _Refused(message)

    def _refuse(self, status: bytes, message: bytes) -> None:
        """Close the connection. The error is sent if no response was begun: in the middle of one it
        would be taken for a part of it."""
        begun = self._responding is not None and self._responding.response_started
        if self._is_idle() if self._part != "body" else not begun:
            self.transport.write(REFUSAL % (status, len(message), message))
        self.transport.close()

    def _expired(self) -> None:
        if self.pipeline and self._part is not None:
            # The client sent this request before the response to an earlier one has ended. It is
            # not read until then.
            self._awaiting.set(self._body_seconds)
            return
        self._abort()

    def _abort(self) -> None:
        """Discard what the client has not read. `close` would wait for it, without a limit."""
        self.transport.abort()


def ended_by_closing(app: ASGIApp, cycle: RequestResponseCycle) -> ASGIApp:
    """Return `app` for HTTP/1.0, which has no chunks (RFC 9112, section 6.1): a response without a
    length ends with the connection, which uvicorn closes."""

    async def ending(scope: Scope, receive: Receive, send: Send) -> None:
        async def unchunked(message: Message) -> None:
            if message["type"] == "http.response.start":
                if b"content-length" not in (
                    name.lower() for name, _ in message.get("headers", ())
                ):
                    cycle.chunked_encoding = False
            else:
                size = len(message.get("body", b""))
                cycle.expected_content_length = max(size, cycle.expected_content_length)
            await send(message)

        await app(scope, receive, unchunked)

    return ending


class Deadline:
    """Calls `expired` when the time that was set last is over. Setting it is cheap enough for every
    write: the timer is only replaced if the new time is earlier."""

    def __init__(self, loop: asyncio.AbstractEventLoop, expired: Callable[[], None]) -> None:
        self._loop = loop
        self._expired = expired
        self._due: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float) -> None:
        self._due = self._loop.time() + seconds
        if self._timer is None or self._timer.when() > self._due:
            self._arm(self._due)

    def clear(self) -> None:
        self._due = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._check)

    def _check(self) -> None:
        self._timer = None
        if self._due is None:
            return
        if self._due > self._loop.time():
            self._arm(self._due)
            return
        self._due = None
        self._expired()
