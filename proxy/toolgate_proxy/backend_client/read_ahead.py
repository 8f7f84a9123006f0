"""Bytes of a streamed response as they arrive, and the server-sent events in them.

httpx gives a body out by the pieces in which it was written, a token each, also when many of them
have come in one packet. Here one task a stream takes them in as they come, and who looks gets all
there is at once: a process that is kept busy does its work for many tokens in one go, and one that
is idle for each as it comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

READ_AHEAD = 256 * 1024
"""Bytes after which reading waits for a client that takes them slower than they come."""


class SseParser:
    """Bytes in, in pieces of any size; the payloads of the `data:` lines they complete out."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Comments (keep-alives), blank lines and other fields are passed over."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [line[len(b"data:") :].strip() for line in lines if line.startswith(b"data:")]


class ReadAhead:
    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._held = bytearray()
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._ended = False
        self._error: Exception | None = None
        self._reading = asyncio.create_task(self._read(pieces))

    async def take(self) -> bytes | None:
        """All that has come, at least something; None at the end. Raises what broke the reading
        once all before it was taken."""
        await self._news.wait()
        if self._held:
            data = bytes(self._held)
            self._held.clear()
            if not self._ended:
                self._news.clear()
            self._room.set()
            return data
        if self._error is not None:
            raise self._error
        return None

    async def aclose(self) -> None:
        self._reading.cancel()
        await asyncio.wait({self._reading})

    async def _read(self, pieces: AsyncIterator[bytes]) -> None:
        try:
            async for data in pieces:
                self._held += data
                self._news.set()
                if len(self._held) >= READ_AHEAD:
                    self._room.clear()
                    await self._room.wait()
        except Exception as error:  # noqa: BLE001 - raised again where it is waited for
            self._error = error
        finally:
            self._ended = True
            self._news.set()
