"""Connections of attacks: raw bytes, so that nothing corrects what is sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

CHAT = "/v1/chat/completions"


@asynccontextmanager
async def connected(
    host: str, port: int
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A TCP connection, which is reset at the end."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def head(*lines: str, key: str | None = None, method: str = "POST", path: str = CHAT) -> bytes:
    """The headers of a request with a JSON body. `lines`: further headers."""
    sent = [f"{method} {path} HTTP/1.1", "host: gateway", *lines]
    if method == "POST":
        sent.append("content-type: application/json")
    if key is not None:
        sent.append(f"authorization: Bearer {key}")
    return "\r\n".join([*sent, "", ""]).encode()


async def send(writer: asyncio.StreamWriter, data: bytes) -> bool:
    """Whether the server still takes data."""
    if writer.is_closing():
        return False
    try:
        writer.write(data)
        await writer.drain()
    except OSError:
        return False
    return True


async def read_to_end(reader: asyncio.StreamReader, seconds: float) -> tuple[bytes, bool]:
    """The bytes that the server sent, and whether it closed the connection within `seconds`."""
    received = bytearray()
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            try:
                while part := await reader.read(65_536):
                    received += part
            except OSError:
                pass
            return bytes(received), True
    return bytes(received), False
