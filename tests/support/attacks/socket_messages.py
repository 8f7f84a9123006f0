"""Large messages of one key over many WebSocket connections, compressed if the server allows it."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import struct
import zlib
from contextlib import suppress
from dataclasses import dataclass, field

from tests.support.attacks.wire import connected, head, read_to_end, send

PATH = "/v1/responses"
TEXT_FRAME, COMPRESSED = 0x81, 0x40


@dataclass
class SocketAttack:
    accepted: int = 0
    """Connections with a completed handshake."""
    compressed: int = 0
    """Connections on which the server accepted compressed messages."""
    refused: list[int] = field(default_factory=list)
    """HTTP status of the other handshakes."""
    sent: int = 0
    """Messages that the server took whole, as far as the sender knows."""
    closed: int = 0
    """Connections that the server closed."""


async def socket_messages(
    host: str,
    port: int,
    key: str,
    *,
    connections: int = 8,
    messages: int = 5,
    size: int = 31_000_000,
    seconds: float = 10,
) -> SocketAttack:
    """Send `messages` messages of `size` bytes on each connection at once, and wait until `seconds`
    have passed."""
    message = json.dumps({"type": "response.create", "model": "tiny", "input": "x" * size}).encode()
    plain, small = frame(message), frame(message, compressed=True)
    found = SocketAttack()

    async def one() -> None:
        async with connected(host, port) as (reader, writer):
            status, headers = await handshake(reader, writer, key)
            if status != 101:
                found.refused.append(status)
                return
            found.accepted += 1
            deflates = b"permessage-deflate" in headers
            found.compressed += deflates
            reading = asyncio.create_task(read_to_end(reader, seconds))
            for _ in range(messages):
                if not await send(writer, small if deflates else plain):
                    break
                found.sent += 1
            _, closed = await reading
            found.closed += closed

    async def bounded() -> None:
        with suppress(TimeoutError, OSError, asyncio.IncompleteReadError):
            async with asyncio.timeout(seconds):
                await one()

    await asyncio.gather(*(bounded() for _ in range(connections)))
    return found


async def handshake(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: str | None, path: str = PATH
) -> tuple[int, bytes]:
    """The status of the response, and its headers."""
    nonce = base64.b64encode(os.urandom(16)).decode()
    lines = (
        "connection: Upgrade",
        "upgrade: websocket",
        "sec-websocket-version: 13",
        f"sec-websocket-key: {nonce}",
        "sec-websocket-extensions: permessage-deflate",
    )
    await send(writer, head(*lines, key=key, method="GET", path=path))
    headers = await reader.readuntil(b"\r\n\r\n")
    return int(headers.split(b" ", 2)[1]), headers.lower()


def frame(payload: bytes, *, compressed: bool = False, fin: bool = True, opcode: int = 1) -> bytes:
    """A frame of a client. Its mask is 0, so that the payload is sent as it is."""
    first = (0x80 if fin else 0) | opcode
    if compressed:
        deflate = zlib.compressobj(9, zlib.DEFLATED, -12)
        payload = (deflate.compress(payload) + deflate.flush(zlib.Z_SYNC_FLUSH))[:-4]
        first |= COMPRESSED
    size = len(payload)
    if size < 126:
        length = bytes([0x80 | size])
    elif size < 65_536:
        length = struct.pack("!BH", 0x80 | 126, size)
    else:
        length = struct.pack("!BQ", 0x80 | 127, size)
    return bytes([first]) + length + bytes(4) + payload
