"""Every connection is closed in every state of the protocol, if the client does not go on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from tests.proxy.server.transport.conftest import Serve
from tests.support.attacks.wire import (
    PROBE,
    STATES,
    connected,
    read_to_end,
    send,
    stalled_connections,
)
from toolgate_proxy.server.absent_routes import refuse_upgrade

LATEST = 8.0
"""Seconds in which a connection must be closed. The limits are shorter than one."""
LARGE = 50_000_000
"""Bytes of a response that fill the buffers of both sides."""


async def refusing(scope: Scope, receive: Receive, send: Send) -> None:
    """Sends a response without reading the body, or refuses the handshake."""
    if scope["type"] == "websocket":
        await refuse_upgrade(scope, receive, send)
        return
    await send({"type": "http.response.start", "status": 401, "headers": []})
    await send({"type": "http.response.body", "body": b"No key."})


async def reading(scope: Scope, receive: Receive, send: Send) -> None:
    """Sends a response when it has the body, or refuses the handshake."""
    if scope["type"] == "websocket":
        await refuse_upgrade(scope, receive, send)
        return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"Done."})


def writing(size: int, *, parts: int = 1, close: bool = False) -> Any:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"connection", b"close")] if close else []
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for _ in range(parts):
            part = bytes(size // parts)
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    return app


@pytest.mark.parametrize("app", [refusing, reading])
async def test_a_client_that_stops_in_any_state_is_closed(serve: Serve, app: Any) -> None:
    async with serve(app, response_seconds=1) as (host, port):
        left = await stalled_connections(host, port, each=2, seconds=LATEST)
    assert set(left) == set(STATES)
    assert not +left


@pytest.mark.parametrize("parts", [1, 500])
@pytest.mark.parametrize("close", [True, False])
async def test_a_client_that_does_not_read_the_response_is_closed(
    serve: Serve, parts: int, close: bool
) -> None:
    async with serve(writing(LARGE, parts=parts, close=close)) as (host, port):
        await expect_abort(host, port, PROBE)


async def test_a_client_that_sends_its_end_and_does_not_read_is_closed(serve: Serve) -> None:
    async with serve(writing(LARGE)) as (host, port), connected(host, port) as (reader, writer):
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        await send(writer, PROBE)
        writer.write_eof()
        await expect_reset(reader)


async def test_a_client_that_reads_slowly_gets_all_of_the_response(serve: Serve) -> None:
    async with (
        serve(writing(LARGE, parts=500), write_seconds=2) as (host, port),
        connected(host, port) as (reader, writer),
    ):
        await send(writer, PROBE)
        received = 0
        while received < LARGE:
            received += len(await reader.readexactly(1_000_000))
            await asyncio.sleep(0.01)


async def test_bare_lines_do_not_prolong_the_time_before_the_next_request(serve: Serve) -> None:
    async with serve(refusing) as (host, port), connected(host, port) as (reader, writer):
        await send(writer, PROBE)
        closed = asyncio.create_task(read_to_end(reader, LATEST))
        for _ in range(40):
            await asyncio.sleep(0.1)
            if not await send(writer, b"\r\n") or closed.done():
                break
        else:
            pytest.fail("the connection stays open")


async def test_the_next_request_in_time_is_answered(serve: Serve) -> None:
    async with serve(reading) as (host, port), connected(host, port) as (reader, writer):
        for _ in range(4):
            await send(writer, PROBE)
            assert (await reader.readuntil(b"0\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
            await asyncio.sleep(0.2)


async def test_a_response_that_takes_long_is_awaited(serve: Serve) -> None:
    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(1.5)
        await reading(scope, receive, send)

    async with serve(slow) as (host, port), connected(host, port) as (reader, writer):
        await send(writer, PROBE)
        received, closed = await read_to_end(reader, LATEST)
    assert closed
    assert received.startswith(b"HTTP/1.1 200 ")


async def expect_abort(host: str, port: int, request: bytes) -> None:
    async with connected(host, port) as (reader, writer):
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        await send(writer, request)
        await expect_reset(reader)


async def expect_reset(reader: asyncio.StreamReader) -> None:
    """The server closes the connection though the client has not read. Afterwards it reads what the
    kernel holds, and finds the end."""
    await asyncio.sleep(1.2)
    reader._transport.resume_reading()  # type: ignore[attr-defined]
    received, closed = await read_to_end(reader, LATEST)
    assert closed
    assert len(received) < LARGE
