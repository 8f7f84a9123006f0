"""Large bodies of one key that stop before their last byte."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tests.support.attacks.wire import connected, head, read_to_end, send


async def stalled_bodies(
    host: str,
    port: int,
    key: str | None,
    *,
    connections: int = 25,
    size: int = 31_000_000,
    seconds: float = 10,
    chunked: bool = False,
    path: str = "/v1/chat/completions",
) -> list[bytes]:
    """Send all but the last byte of a body on each connection, and wait until `seconds` have
    passed. Return what the server sent on each connection."""
    content = bytes(size - 1)

    async def stall() -> bytes:
        received = b""
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(seconds), connected(host, port) as (reader, writer):
                if chunked:
                    framing = head("transfer-encoding: chunked", key=key, path=path)
                    await send(writer, framing + b"%x\r\n" % size)
                else:
                    await send(writer, head(f"content-length: {size}", key=key, path=path))
                sending = asyncio.create_task(send(writer, content))
                try:
                    received, _ = await read_to_end(reader, seconds - 0.1)
                finally:
                    sending.cancel()
        return received

    return await asyncio.gather(*(stall() for _ in range(connections)))
