"""uvicorn's HTTP protocol with limits on the time and size of a request's headers and body.

uvicorn waits for ever for the rest of a request. Clients that send a few bytes and stop would each
keep a connection and its buffers. The limits on the body are enforced once more by `body.read`,
which can send a response; here they also hold for a body that is not read. After a response that
does not need the body (a 401), the rest of the body is read and discarded, up to the time limit and
twice the limit on its size, because closing the connection at once could destroy the response.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ...settings import settings

MAX_HEADER_BYTES = 65_536
"""Maximum size of a request line and its headers, in bytes."""
GRACE = 5.0
"""Seconds after the time limit of a body in which the 408 is sent before the connection closes."""
TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)


class TimedProtocol(HttpToolsProtocol):
    """Closes connections whose request does not arrive in time."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        configured = settings()
        self._header_seconds = configured.header_timeout
        self._body_seconds = configured.body_timeout + GRACE
        self._most_discarded = 2 * configured.max_body_bytes
        self._body_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._header_bytes: int | None = None
        """Bytes of the headers so far; None outside headers."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._close_after(self._header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._header_bytes is None or self.transport.is_closing():
            return
        self._header_bytes += len(data)
        if self._header_bytes > MAX_HEADER_BYTES:
            self._stop_timer()
            self.transport.write(TOO_LARGE)
            self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._header_bytes = 0
        self._body_bytes = 0
        self._close_after(self._header_seconds)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._header_bytes = None
        self._close_after(self._body_seconds)

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self._body_bytes += len(body)
        if self._body_bytes > self._most_discarded and self.cycle.response_complete:
            self._stop_timer()
            self.transport.close()

    def on_message_complete(self) -> None:
        self._stop_timer()
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        self._stop_timer()
        super().handle_websocket_upgrade()

    def _close_after(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, self._expired, seconds)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expired(self, seconds: float) -> None:
        self._timer = None
        if self.transport.is_closing():
            return
        if self.pipeline:
            # The client sent its next request before the response to the last one has ended. Its
            # data is not read until then.
            self._close_after(seconds)
            return
        self.transport.close()
