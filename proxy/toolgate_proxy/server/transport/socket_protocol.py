"""uvicorn's WebSocket protocol with limits on the time and size of what a client sends.

uvicorn reads a message of any permitted size from every connection, whether or not the application
wants one. Here bytes count against the budget of the connection's key while they arrive, and the
application can hold messages back until it has answered the earlier one. At any time a connection
has a deadline. Messages are not compressed (`ws_per_message_deflate` in server/launcher.py): a few
bytes would become many.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from io import BytesIO
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame
from websockets.http11 import Request

from toolgate_core.errors import RateLimited

from ...settings import settings
from .frame_pieces import FramePieces
from .http_protocol import HEADER_SECONDS, RESPONSE_SECONDS, WRITE_SECONDS, Deadline

SOCKET = "toolgate.socket"
"""Key of a connection's `BoundedSocket` in the ASGI scope."""
SMALL = 65_536
"""Bytes of a message that are received although messages are held back: pings and the end of the
connection come after them."""
CLOSE_SECONDS = 10.0
"""Time for the client to take the end of a connection."""
TOO_MANY_BYTES = "too many bytes of this API key wait; send the message later"
BAD_HANDSHAKE = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


def _anything(size: int) -> None:
    """No bound."""


class BoundedSocket(WebSocketsSansIOProtocol):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        configured = settings()
        self._message_seconds = configured.body_timeout
        self._write_seconds = WRITE_SECONDS
        self._awaiting = Deadline(self.loop, self._abort)
        """For the handshake, for the rest of a message, or for the end of the connection."""
        self._reading = Deadline(self.loop, self._abort)
        """For the client to read what was sent to it."""
        self._seconds = HEADER_SECONDS
        """Of the latest deadline."""
        self._pieces = FramePieces(configured.max_body_bytes)
        self._content = BytesIO()
        """Of the message that is being received."""
        self._held = False
        self._unread = False
        """The client does not read."""
        self._waiting = 0
        """Bytes of the whole messages that the application has not finished."""
        self.resize: Callable[[int], None] = _anything
        """Is called with the bytes of all messages that this connection holds. Raises RateLimited
        if there is no room for them."""
        self.as_bytes = False
        """Whether messages of text are given to the application as bytes, which may not be valid
        UTF-8. Their text would be one more copy."""

    # For the application

    def hold(self, held: bool) -> None:
        """Whether no further message is read, except for small ones. So it is until the application
        has finished the earlier ones, too."""
        self._held = held
        self._set_reading()

    def finish(self, size: int) -> None:
        """A message of `size` bytes no longer counts."""
        self._waiting -= size
        self._count()
        self._set_reading()

    # What uvicorn and asyncio call

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._awaiting.set(self._seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._awaiting.clear()
        self._reading.clear()
        self._content, self._waiting = BytesIO(), 0
        self.conn.reader.discard()
        self.resize(0)

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.close_sent:
            self.scope[SOCKET] = self  # type: ignore[literal-required]
            self._set_reading()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(self._pieces.rewritten(data) if self.handshake_initiated else data)
        if not self.handshake_initiated:  # uvicorn sends all of it at once
            self.transport.write(BAD_HANDSHAKE)
            self.transport.close()
            return
        self._count()
        self._set_reading()

    def handle_text(self, event: Frame) -> None:
        self.curr_msg_data_type = "text"
        self.handle_cont(event)

    def handle_bytes(self, event: Frame) -> None:
        self.curr_msg_data_type = "bytes"
        self.handle_cont(event)

    def handle_cont(self, event: Frame) -> None:
        self._content.write(event.data)
        if not event.fin:
            return
        content, self._content = self._content.getvalue(), BytesIO()
        self.frames = [content]
        if self.as_bytes:
            self.curr_msg_data_type = "bytes"
        if not self.close_sent:
            self._waiting += len(content)
        del content
        self.send_receive_event_to_app()

    async def receive(self) -> Any:
        message = await self.queue.get()
        self._set_reading()
        return message

    async def send(self, message: Any) -> None:
        await super().send(message)
        self._set_reading()

    async def run_asgi(self) -> None:
        await super().run_asgi()
        self._set_reading()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = True
        self._reading.set(self._write_seconds)
        self._set_reading()  # pings would be answered

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread = False
        self._reading.clear()
        self._set_reading()

    def keepalive_timeout(self) -> None:
        if self.read_paused or self._unfinished:  # a pong can't come before the rest of a message
            self.pong_timer = None
            self.pending_ping_payload = None
            self.schedule_ping()
            return
        super().keepalive_timeout()
        self._set_reading()

    # Limits

    @property
    def _unfinished(self) -> int:
        """Bytes of the message that is being received."""
        return self._content.tell() + len(self.conn.reader.buffer)

    def _count(self) -> None:
        if self.transport.is_closing():
            return
        try:
            self.resize(self._waiting + self._unfinished)
        except RateLimited:
            self.resize = _anything  # the rest is discarded
            self._content = BytesIO()
            if self.close_sent:
                self._abort()
                return
            self.conn.fail(CloseCode.TRY_AGAIN_LATER, TOO_MANY_BYTES)
            self.handle_parser_exception()

    def _set_reading(self) -> None:
        """Reads, or stops reading, and sets the deadline of the state."""
        if self.disconnected:
            return
        if self.close_sent or self.transport.is_closing():
            self._await(CLOSE_SECONDS)
            return
        paused = (
            not self.handshake_complete
            or self._unread
            or not self.queue.empty()
            or ((self._held or self._waiting > 0) and self._unfinished > SMALL)
        )
        if paused != self.read_paused:
            self.read_paused = paused
            (self.transport.pause_reading if paused else self.transport.resume_reading)()
        if self.handshake_complete:
            begun = self._unfinished and not paused
            self._await(self._message_seconds if begun else RESPONSE_SECONDS)

    def _await(self, seconds: float) -> None:
        """Sets the deadline of a state, unless the connection is in that state."""
        if seconds != self._seconds:
            self._seconds = seconds
            self._awaiting.set(seconds)

    def _abort(self) -> None:
        """Discards what the client has not read. `close` would wait for it, without a limit."""
        self.transport.abort()
