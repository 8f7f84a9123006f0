"""A chunked body whose trailers do not end. It needs no key."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tests.support.attacks.wire import connected, head, send

LINES = 1000
"""Trailers in one write."""


async def endless_trailers(
    host: str, port: int, key: str | None = None, *, size: int = 200_000_000, seconds: float = 10
) -> int:
    """Send up to `size` bytes of trailers within `seconds`. Return how many the server took before
    it closed the connection."""
    sent = 0
    async with connected(host, port) as (reader, writer):
        reading = asyncio.create_task(_discard(reader))
        await send(writer, head("transfer-encoding: chunked", key=key) + b"2\r\n{}\r\n0\r\n")
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while sent < size:
                    lines = b"".join(
                        b"x-%d: %s\r\n" % (sent + number, b"y" * 200) for number in range(LINES)
                    )
                    if not await send(writer, lines):
                        break
                    sent += len(lines)
        reading.cancel()
    return sent


async def _discard(reader: asyncio.StreamReader) -> None:
    with suppress(OSError):
        while await reader.read(65_536):
            pass
