"""Headers, trailers and pipelined requests are bounded, and trailers are no headers."""

from __future__ import annotations

import asyncio
import json

import pytest
from starlette.types import Receive, Scope, Send

from tests.proxy.server.transport.conftest import Serve
from tests.support.attacks.wire import connected, endless_trailers, head, read_to_end, send
from toolgate_proxy.server.transport.http_protocol import (
    FIELD_BYTES,
    MAX_HEADER_BYTES,
    MAX_PIPELINED,
)

CHUNKED = "transfer-encoding: chunked"
SECONDS = 5.0
TOO_LARGE = b"HTTP/1.1 431 "
GET = head(method="GET")


async def headers(scope: Scope, receive: Receive, send: Send) -> None:
    """Sends the names of the request's headers after its body."""
    while (await receive()).get("more_body"):
        pass
    names = [name.decode() for name, _ in scope["headers"]]
    content = json.dumps(names).encode()
    length = [(b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": length})
    await send({"type": "http.response.body", "body": content})


async def never(scope: Scope, receive: Receive, send: Send) -> None:
    await asyncio.Event().wait()


async def refusing(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 401, "headers": []})
    await send({"type": "http.response.body", "body": b"No key."})


async def response(host: str, port: int, *parts: bytes) -> bytes:
    """What the server sends until it closes the connection."""
    async with connected(host, port) as (reader, writer):
        for part in parts:
            await send(writer, part)
        received, closed = await read_to_end(reader, SECONDS)
    assert closed
    return received


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(
    "lines",
    [
        ("x: " + "y" * 200_000,),
        tuple(f"x-{at}: {'y' * 1000}" for at in range(200)),
        tuple("x:" for _ in range(MAX_HEADER_BYTES // FIELD_BYTES)),
    ],
    ids=["one", "many", "empty"],
)
async def test_headers_above_the_limit_are_a_431(
    serve: Serve, lines: tuple[str, ...], at_once: bool
) -> None:
    sent = head(*lines)
    parts = [sent] if at_once else [sent[at : at + 5000] for at in range(0, len(sent), 5000)]
    async with serve(headers, header_seconds=20) as (host, port):
        received = await response(host, port, *parts)
    # The system discards a response if the client goes on sending.
    assert received[: len(TOO_LARGE)] in (TOO_LARGE, b"")


async def test_a_long_request_line_is_a_431(serve: Serve) -> None:
    async with serve(headers) as (host, port):
        sent = head(path="/" + "x" * MAX_HEADER_BYTES)
        assert (await response(host, port, sent)).startswith(TOO_LARGE)


async def test_headers_at_once_above_the_limit_reach_no_application(serve: Serve) -> None:
    async def fails(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError

    sent = head("x: " + "y" * (MAX_HEADER_BYTES + 1), "content-length: 0")
    async with serve(fails) as (host, port):
        assert (await response(host, port, sent)).startswith(TOO_LARGE)


async def test_headers_below_the_limit_are_passed_on(serve: Serve) -> None:
    long = "x: " + "y" * 60_000
    async with serve(headers) as (host, port):
        received = await response(host, port, head(long, "content-length: 0"))
    assert received.startswith(b"HTTP/1.1 200 ")


async def test_trailers_are_not_headers(serve: Serve) -> None:
    """Neither of their request nor of the next one."""
    chunked = head(CHUNKED)
    trailers = b"2\r\n{}\r\n0\r\nauthorization: Bearer x\r\nlast: y\r\n\r\n"
    async with serve(headers) as (host, port):
        received = await response(host, port, chunked, trailers, GET)
    assert received.count(b"HTTP/1.1 200 ") == 2
    assert b"authorization" not in received
    assert b"last" not in received


@pytest.mark.parametrize("app", [refusing, headers, never])
async def test_trailers_without_end_close_the_connection(serve: Serve, app: object) -> None:
    async with serve(app, body_timeout=20) as (host, port):
        sent = await endless_trailers(host, port, size=50_000_000, seconds=SECONDS)
    assert sent < 10_000_000  # what the kernel's buffers hold


async def test_too_many_trailers_are_a_431_if_there_is_no_response_yet(serve: Serve) -> None:
    trailers = b"0\r\n" + b"x: y\r\n" * (MAX_HEADER_BYTES // FIELD_BYTES)
    async with serve(headers) as (host, port):
        assert (await response(host, port, head(CHUNKED), trailers)).startswith(TOO_LARGE)


@pytest.mark.parametrize(
    "field", [b"1;" + b"x" * 3_000_000, b"0\r\nx: " + b"y" * 3_000_000], ids=["chunk", "trailer"]
)
async def test_a_field_of_a_body_without_end_closes_the_connection(
    serve: Serve, field: bytes
) -> None:
    parts = [field[at : at + 50_000] for at in range(0, len(field), 50_000)]
    async with serve(never, body_timeout=20, response_seconds=20) as (host, port):
        await response(host, port, head(CHUNKED), *parts)


async def test_the_end_of_a_body_and_the_next_headers_at_once_are_read(serve: Serve) -> None:
    """Bytes of a body do not count as headers."""
    content = b"x" * 200_000
    sent = head(f"content-length: {len(content)}") + content + GET[:-10]
    async with serve(headers, header_seconds=2) as (host, port):
        received = await response(host, port, sent, GET[-10:])
    assert received.count(b"HTTP/1.1 200 ") == 2


async def test_too_many_pipelined_requests_close_the_connection(serve: Serve) -> None:
    async with serve(never, response_seconds=20) as (host, port):
        received = await response(host, port, GET * (MAX_PIPELINED + 2))
    assert received.startswith(b"HTTP/1.1 400 ")


async def test_pipelined_requests_are_answered_in_order(serve: Serve) -> None:
    async with serve(headers) as (host, port):
        received = await response(host, port, GET * MAX_PIPELINED)
    assert received.count(b"HTTP/1.1 200 ") == MAX_PIPELINED


async def test_a_disconnect_reaches_the_request_that_is_served(serve: Serve) -> None:
    """Not only the one that arrived last."""
    told = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        told.set()

    async with serve(app) as (host, port):
        async with connected(host, port) as (_, writer):
            await send(writer, GET * 2)
            await asyncio.sleep(0.1)
        async with asyncio.timeout(SECONDS):
            await told.wait()


@pytest.mark.parametrize("protocol", ["websocket", "h2c"])
async def test_an_upgrade_with_a_body_is_a_400(serve: Serve, protocol: str) -> None:
    """What follows could be read as a request."""
    hidden = GET
    lines = ("connection: Upgrade", f"upgrade: {protocol}", f"content-length: {len(hidden)}")
    async with serve(headers) as (host, port):
        received = await response(host, port, head(*lines), hidden)
    assert received.startswith(b"HTTP/1.1 400 ")
    assert b"HTTP/1.1 200 " not in received


@pytest.mark.parametrize(
    ("version", "lines", "status"),
    [
        ("1.1", (), 400),
        ("1.1", ("host: a", "host: b"), 400),
        ("1.1", ("host: a", "content-length: 0"), 200),
        ("1.0", ("content-length: 0",), 200),
        ("1.0", (CHUNKED,), 400),
    ],
)
async def test_a_request_that_servers_read_differently_is_a_400(
    serve: Serve, version: str, lines: tuple[str, ...], status: int
) -> None:
    sent = "\r\n".join([f"POST / HTTP/{version}", "connection: close", *lines, "", ""]).encode()
    async with serve(headers) as (host, port):
        received = await response(host, port, sent)
    assert received.startswith(b"HTTP/1.1 %d " % status)


async def test_an_upgrade_to_another_protocol_without_a_body_is_ignored(serve: Serve) -> None:
    async with serve(headers) as (host, port):
        sent = head("connection: Upgrade", "upgrade: h2c", method="GET")
        assert (await response(host, port, sent)).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "lines",
    [("x: " + "y" * 20_000,), tuple(f"x-{at}: y" for at in range(200))],
    ids=["long", "many"],
)
async def test_a_handshake_that_the_websocket_library_refuses_is_closed(
    serve: Serve, lines: tuple[str, ...]
) -> None:
    upgrade = ("connection: Upgrade", "upgrade: websocket", "sec-websocket-version: 13")
    sent = head(*upgrade, "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==", *lines, method="GET")
    async with serve(headers) as (host, port):
        assert await response(host, port, sent) == b""
