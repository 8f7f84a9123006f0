"""Connections that stop in each state of the protocol and stay open."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from tests.support.attacks.wire import connected, head, read_to_end, send

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
