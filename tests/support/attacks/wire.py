"""Connections of attacks: raw bytes, so that nothing corrects what is sent."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
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


PROBE = head(method="GET", path="/health/liveliness")
UPGRADE = ("connection: Upgrade", "upgrade: websocket")
HANDSHAKE = (*UPGRADE, "sec-websocket-version: 13", "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==")

STATES: dict[str, tuple[bytes, ...]] = {
    "nothing": (),
    "bare line": (b"\r\n",),
    "method": (b"PO",),
    "headers": (head()[:-2],),
    "body": (head("content-length: 100") + b"{",),
    "no byte of a body": (head("content-length: 100"),),
    "chunk": (head("transfer-encoding: chunked") + b"ff\r\n{",),
    "chunk size": (head("transfer-encoding: chunked") + b"f",),
    "trailers": (head("transfer-encoding: chunked") + b"0\r\nx: y\r\n",),
    "body after the response": (head("content-length: 100"), b"{"),
    "next request": (PROBE,),
    "bare line after the response": (PROBE, b"\r\n"),
    "start of the next request": (PROBE, b"GET"),
    "expected continue": (head("content-length: 100", "expect: 100-continue"),),
    "upgrade with a body": (head(*UPGRADE, "content-length: 100") + b"{",),
    "upgrade with a chunked body": (head(*HANDSHAKE, "transfer-encoding: chunked") + b"ff\r\n{",),
    "upgrade of a POST": (head(*HANDSHAKE),),
    "upgrade without a key of the handshake": (head(*UPGRADE, method="GET", path="/v1/responses"),),
    "upgrade to another protocol": (
        head("connection: Upgrade", "upgrade: h2c", "content-length: 100"),
    ),
    "handshake without an API key": (head(*HANDSHAKE, method="GET", path="/v1/responses"),),
    "handshake at another path": (head(*HANDSHAKE, method="GET", path="/v1/none"),),
}
"""Names of states, and what is sent to reach each. A pause is between two parts."""


async def stalled_connections(
    host: str,
    port: int,
    key: str | None = None,
    *,
    states: Sequence[str] = tuple(STATES),
    each: int = 20,
    seconds: float = 10,
    pause: float = 0.3,
) -> Counter[str]:
    """Hold `each` connections in each state for `seconds`. Return how many of each the server left
    open. `key` is not used: none of the states needs one."""
    left: Counter[str] = Counter()

    async def hold(state: str) -> None:
        async with connected(host, port) as (reader, writer):
            for part in STATES[state]:
                await send(writer, part)
                await asyncio.sleep(pause)
            _, closed = await read_to_end(reader, seconds)
            left[state] += not closed

    await asyncio.gather(*(hold(state) for state in states for _ in range(each)))
    return left
