"""Every connection is closed in every state of the protocol, if the client does not go on, and
headers, trailers and pipelined requests are bounded."""

import asyncio
import json
import socket
from contextlib import asynccontextmanager

import pytest
import uvicorn

from tests.support.attacks.wire import (
    PROBE,
    STATES,
    connected,
    endless_trailers,
    head,
    read_to_end,
    send,
    stalled_connections,
)
from tests.support.effort import sampled
from toolgate_proxy.server import http_protocol
from toolgate_proxy.server.absent_routes import refuse_upgrade
from toolgate_proxy.server.http_protocol import (
    FIELD_BYTES,
    MAX_HEADER_BYTES,
    MAX_PIPELINED,
    TimedProtocol,
)
from toolgate_proxy.settings import settings

SECONDS = 0.4
"""Every time limit of the server, unless a test sets others."""
LATEST = 8.0
"""Seconds in which a connection must be closed."""
LARGE = 50_000_000
"""Bytes of a response that fill the buffers of both sides."""
CHUNKED = "transfer-encoding: chunked"
TOO_LARGE = b"HTTP/1.1 431 "
GET = head(method="GET")


@pytest.fixture
def serve(monkeypatch):
    """`serve(app, header_seconds=…)`: runs the app with the gateway's protocols and these settings
    in the test's event loop; host and port."""

    @asynccontextmanager
    async def served(app, **limits):
        keep_alive = limits.pop("keep_alive", SECONDS)
        monkeypatch.setattr(http_protocol, "GRACE", 0.0)
        constants = {
            "RESPONSE_SECONDS": limits.pop("response_seconds", 60.0),
            "HEADER_SECONDS": limits.pop("header_seconds", SECONDS),
            "WRITE_SECONDS": limits.pop("write_seconds", SECONDS),
        }
        for name, value in constants.items():
            monkeypatch.setattr(http_protocol, name, value)
        for name, value in ({"body_timeout": SECONDS} | limits).items():
            monkeypatch.setenv(f"TOOLGATE_{name.upper()}", str(value))
        settings.cache_clear()
        config = uvicorn.Config(
            app,
            http=TimedProtocol,
            ws="websockets-sansio",
            ws_per_message_deflate=False,
            ws_max_size=settings().max_body_bytes,
            timeout_keep_alive=keep_alive,
            lifespan="off",
            log_level="critical",
        )
        server = uvicorn.Server(config)
        listener = socket.create_server(("127.0.0.1", 0))
        running = asyncio.create_task(server._serve([listener]))
        while not server.started:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        try:
            yield "127.0.0.1", listener.getsockname()[1]
        finally:
            server.should_exit = server.force_exit = True
            await running
            listener.close()

    return served


async def answer(send, status, content, *headers):
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": content})


async def refusing(scope, receive, send):
    """Sends a response without reading the body, or refuses the handshake."""
    if scope["type"] == "websocket":
        await refuse_upgrade(scope, receive, send)
    else:
        await answer(send, 401, b"No key.")


async def reading(scope, receive, send):
    """Sends the names of the request's headers when it has the body, or refuses the handshake."""
    if scope["type"] == "websocket":
        await refuse_upgrade(scope, receive, send)
        return
    while (await receive()).get("more_body"):
        pass
    content = json.dumps([name.decode() for name, _ in scope["headers"]]).encode()
    await answer(send, 200, content, (b"content-length", str(len(content)).encode()))


async def never(scope, receive, send):
    await asyncio.Event().wait()


def writing(size, *, parts=1, close=False):
    async def app(scope, receive, send):
        headers = [(b"connection", b"close")] if close else []
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for _ in range(parts):
            part = bytes(size // parts)
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    return app


async def response(host, port, *parts):
    """What the server sends until it closes the connection."""
    async with connected(host, port) as (reader, writer):
        for part in parts:
            await send(writer, part)
        received, closed = await read_to_end(reader, LATEST)
    assert closed
    return received


# --- time -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("app", [refusing, reading])
async def test_a_client_that_stops_in_any_state_is_closed(serve, app):
    async with serve(app, response_seconds=1) as (host, port):
        left = await stalled_connections(host, port, each=2, seconds=LATEST)
    assert set(left) == set(STATES)
    assert not +left


@sampled("parts, ends", [1, 500], ["", "server", "client"], one_in=2)
async def test_a_client_that_does_not_read_the_response_is_closed(serve, parts, ends):
    """Afterwards it reads what the kernel holds, and finds the end."""
    app = writing(LARGE, parts=parts, close=ends == "server")
    async with serve(app) as (host, port), connected(host, port) as (reader, writer):
        reader._transport.pause_reading()
        await send(writer, PROBE)
        if ends == "client":
            writer.write_eof()
        await asyncio.sleep(1.2)
        reader._transport.resume_reading()
        received, closed = await read_to_end(reader, LATEST)
    assert closed
    assert len(received) < LARGE


async def test_a_client_that_reads_slowly_gets_all_of_the_response(serve):
    async with (
        serve(writing(LARGE, parts=500), write_seconds=2) as (host, port),
        connected(host, port) as (reader, writer),
    ):
        await send(writer, PROBE)
        received = 0
        while received < LARGE:
            received += len(await reader.readexactly(1_000_000))
            await asyncio.sleep(0.01)


async def test_bare_lines_do_not_prolong_the_time_before_the_next_request(serve):
    async with serve(refusing) as (host, port), connected(host, port) as (reader, writer):
        await send(writer, PROBE)
        closed = asyncio.create_task(read_to_end(reader, LATEST))
        for _ in range(40):
            await asyncio.sleep(0.1)
            if not await send(writer, b"\r\n") or closed.done():
                break
        else:
            pytest.fail("the connection stays open")


async def test_requests_in_time_are_answered_however_long_it_takes(serve):
    seconds = iter((0, 0, 0, 1.5))

    async def slow(scope, receive, send):
        await asyncio.sleep(next(seconds))
        await reading(scope, receive, send)

    async with (
        serve(slow, keep_alive=1.5, header_seconds=1.5) as (host, port),
        connected(host, port) as (reader, writer),
    ):
        for _ in range(4):
            await send(writer, PROBE)
            assert (await reader.readuntil(b"]")).startswith(b"HTTP/1.1 200 ")
            await asyncio.sleep(0.6)


async def test_a_disconnect_reaches_the_request_that_is_served(serve):
    """Not only the one that arrived last."""
    told = asyncio.Event()

    async def app(scope, receive, send):
        while (await receive())["type"] != "http.disconnect":
            pass
        told.set()

    async with serve(app) as (host, port):
        async with connected(host, port) as (_, writer):
            await send(writer, GET * 2)
            await asyncio.sleep(0.1)
        async with asyncio.timeout(LATEST):
            await told.wait()


# --- sizes ----------------------------------------------------------------------------------------

LARGE_HEADS = {
    "one": head("x: " + "y" * 200_000),
    "many": head(*(f"x-{at}: {'y' * 1000}" for at in range(200))),
    "empty": head(*("x:" for _ in range(MAX_HEADER_BYTES // FIELD_BYTES))),
    "request line": head(path="/" + "x" * MAX_HEADER_BYTES),
    "whole": head("x: " + "y" * (MAX_HEADER_BYTES + 1), "content-length: 0"),
}


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("name", LARGE_HEADS)
async def test_headers_above_the_limit_are_a_431_and_reach_no_application(serve, name, at_once):
    reached = []

    async def app(scope, receive, send):
        reached.append(scope)

    sent = LARGE_HEADS[name]
    parts = [sent] if at_once else [sent[at : at + 5000] for at in range(0, len(sent), 5000)]
    async with serve(app, header_seconds=20) as (host, port):
        received = await response(host, port, *parts)
    # The system discards a response if the client goes on sending.
    assert received[: len(TOO_LARGE)] in (TOO_LARGE, b"")
    assert received or name in ("one", "many", "empty") or not at_once
    assert not reached


async def test_trailers_are_not_headers(serve):
    """Neither of their request nor of the next one."""
    trailers = b"2\r\n{}\r\n0\r\nauthorization: Bearer x\r\nlast: y\r\n\r\n"
    async with serve(reading, header_seconds=2) as (host, port):
        received = await response(host, port, head(CHUNKED), trailers, GET)
    assert received.count(b"HTTP/1.1 200 ") == 2
    assert b"authorization" not in received
    assert b"last" not in received


@pytest.mark.parametrize("app", [refusing, reading, never])
async def test_trailers_without_end_close_the_connection(serve, app):
    async with serve(app, body_timeout=20) as (host, port):
        sent = await endless_trailers(host, port, size=50_000_000, seconds=LATEST)
    assert sent < 10_000_000  # what the kernel's buffers hold


@pytest.mark.parametrize(
    "field", [b"1;" + b"x" * 3_000_000, b"0\r\nx: " + b"y" * 3_000_000], ids=["chunk", "trailer"]
)
async def test_a_field_of_a_body_without_end_closes_the_connection(serve, field):
    parts = [field[at : at + 50_000] for at in range(0, len(field), 50_000)]
    async with serve(never, body_timeout=20, response_seconds=20) as (host, port):
        await response(host, port, head(CHUNKED), *parts)


def request(version, *lines):
    return "\r\n".join([f"POST / HTTP/{version}", "connection: close", *lines, "", ""]).encode()


def upgrade(protocol, *lines):
    return head("connection: Upgrade", f"upgrade: {protocol}", *lines, method="GET")


HANDSHAKE = ("sec-websocket-version: 13", "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==")
H2C = ("connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAEAAEAAAAIAAAAA")


def hiding(*lines, end=b"", method="POST"):
    """A request whose body is a request, and the next one."""
    return [head(*lines, method=method) + GET + end + GET[:-10], GET[-10:]]


LENGTH = f"content-length: {len(GET)}"
WEBSOCKET = ("connection: Upgrade", "upgrade: websocket", *HANDSHAKE)


BODY = b"x" * 200_000


@pytest.mark.parametrize(
    ("sent", "status", "answers"),
    [
        pytest.param([head("x: " + "y" * 60_000, "content-length: 0")], 200, 1, id="long header"),
        pytest.param([head(CHUNKED), b"0\r\n" + b"x: y\r\n" * (MAX_HEADER_BYTES // FIELD_BYTES)],
                     431, 0, id="too many trailers before the response"),
        pytest.param([head(f"content-length: {len(BODY)}") + BODY + GET[:-10], GET[-10:]],
                     200, 2, id="end of a body and the next headers at once"),
        pytest.param([GET * MAX_PIPELINED], 200, MAX_PIPELINED, id="pipelined"),
        pytest.param(hiding(*H2C, LENGTH), 200, 2, id="h2c with a body"),
        pytest.param([head(*H2C, CHUNKED) + b"1\r\n", b"x\r\n0\r\n\r\n" + GET], 200, 2,
                     id="h2c with chunks"),
        pytest.param(hiding(*WEBSOCKET, LENGTH), 200, 2, id="websocket by POST"),
        pytest.param(hiding(*WEBSOCKET, LENGTH, method="GET"), 200, 2, id="websocket with a body"),
        pytest.param(hiding(*H2C, "transfer-encoding: gzip"), 400, 0, id="h2c with a coding"),
        pytest.param(hiding(*H2C, CHUNKED, "transfer-encoding: x"), 400, 0, id="two codings"),
        pytest.param(hiding(*H2C, CHUNKED, LENGTH), 400, 0, id="h2c with two lengths"),
        pytest.param(hiding(LENGTH, method="CONNECT"), 501, 0, id="tunnel with a body"),
        pytest.param([request("1.1", "host: a", *H2C, LENGTH) + GET], 200, 1, id="h2c that closes"),
        pytest.param([request("1.0", *H2C, LENGTH) + GET], 200, 1, id="h2c by HTTP/1.0"),
        pytest.param([upgrade("h2c") * 3], 200, 3, id="an upgrade without a body is ignored"),
        pytest.param([upgrade("websocket", *HANDSHAKE, "x: " + "y" * 20_000)], None, 0,
                     id="long handshake"),
        pytest.param([upgrade("websocket", *HANDSHAKE, *(f"x-{at}: y" for at in range(200)))],
                     None, 0, id="handshake with many headers"),
        pytest.param([request("1.1")], 400, 0, id="no host"),
        pytest.param([request("1.1", "host: a", "host: b")], 400, 0, id="two hosts"),
        pytest.param([request("1.1", "host: a", "content-length: 0")], 200, 1, id="one host"),
        pytest.param([request("1.0", "content-length: 0")], 200, 1, id="1.0"),
        pytest.param([request("1.0", CHUNKED)], 400, 0, id="1.0 with chunks"),
    ],
)  # fmt: skip
async def test_requests_are_answered_unless_servers_read_them_differently(
    serve, sent, status, answers
):
    async with serve(reading, header_seconds=2) as (host, port):
        received = await response(host, port, *sent)
    assert received.startswith(b"HTTP/1.1 %d " % status) if status else received == b""
    assert received.count(b"HTTP/1.1 200 ") == answers
    assert b"upgrade" not in received


@pytest.mark.parametrize(("version", "chunks"), [("1.0", False), ("1.1", True)])
async def test_a_response_without_a_length_has_no_chunks_in_http_1_0(serve, version, chunks):
    async with serve(writing(100, parts=5)) as (host, port):
        received = await response(host, port, request(version, "host: a", "content-length: 0"))
    fields, _, body = received.partition(b"\r\n\r\n")
    assert (b"transfer-encoding: chunked" in fields) == chunks
    assert (body == bytes(100)) != chunks


async def test_too_many_pipelined_requests_close_the_connection(serve):
    async with serve(never, response_seconds=20) as (host, port):
        received = await response(host, port, GET * (MAX_PIPELINED + 2))
    assert received.startswith(b"HTTP/1.1 400 ")
