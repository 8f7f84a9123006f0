"""WebSocket messages: no compression, bounded bytes, none read while an earlier one is answered."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from starlette.types import Receive, Scope, Send

from tests.proxy.server.transport.conftest import Serve
from tests.support.attacks.socket_messages import frame, handshake
from tests.support.attacks.wire import connected, head, read_to_end, send
from tests.support.waiting import until
from toolgate_proxy.limits.key_bounds import BodyBudget
from toolgate_proxy.server.transport.socket_protocol import SMALL, SOCKET, BoundedSocket

BUDGET = 1_000_000
SECONDS = 5.0
TRY_LATER = (1013).to_bytes(2)
LARGE = 400_000


class Application:
    """Accepts connections and takes messages only when the test does."""

    def __init__(self) -> None:
        self.budget = BodyBudget(BUDGET)
        self.sockets: list[BoundedSocket] = []
        self.receives: list[Receive] = []
        self.opened = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert (await receive())["type"] == "websocket.connect"
        socket: BoundedSocket = scope[SOCKET]
        socket.resize = self.budget.open("key").resize
        self.sockets.append(socket)
        self.receives.append(receive)
        await send({"type": "websocket.accept"})
        self.opened.set()
        await asyncio.Event().wait()

    @property
    def used(self) -> int:
        return self.budget.used("key")

    async def until(self, size: int) -> None:
        """Wait until that many bytes are held."""
        await until(lambda: self.used == size)


async def test_compression_is_not_offered(serve: Serve) -> None:
    app = Application()
    async with serve(app) as (host, port), connected(host, port) as (reader, writer):
        status, headers = await handshake(reader, writer, None)
        assert status == 101
        assert b"permessage-deflate" not in headers
        await send(writer, frame(b"x" * 1000, compressed=True))
        received, closed = await read_to_end(reader, SECONDS)
    assert closed
    assert (1002).to_bytes(2) in received


async def test_bytes_count_while_they_arrive_and_until_the_message_is_finished(
    serve: Serve,
) -> None:
    app = Application()
    message = frame(b"x" * LARGE)
    async with serve(app, body_timeout=20) as (host, port), connected(host, port) as (reader, out):
        await handshake(reader, out, None)
        await send(out, message[:200_000])
        await app.until(200_000 - (len(message) - LARGE))
        await send(out, message[200_000:])
        await app.until(LARGE)
        received = await app.receives[0]()
        assert len(received["text"]) == LARGE
        await asyncio.sleep(0.05)
        assert app.used == LARGE
        app.sockets[0].finish(LARGE)
        assert app.used == 0


async def test_messages_above_the_budget_of_the_key_close_their_connection(serve: Serve) -> None:
    app = Application()
    message = frame(b"x" * LARGE)
    async with serve(app) as (host, port), connected(host, port) as (first, to_first):
        await handshake(first, to_first, None)
        await send(to_first, message)
        await app.until(LARGE)
        async with connected(host, port) as (second, to_second):
            await handshake(second, to_second, None)
            await send(to_second, message)
            await app.until(2 * LARGE)
            async with connected(host, port) as (third, to_third):
                await handshake(third, to_third, None)
                await send(to_third, message)
                received, closed = await read_to_end(third, SECONDS)
            assert closed
            assert TRY_LATER in received
            await app.until(2 * LARGE)
            await app.receives[1]()  # the end of the connection is read after the message
        await app.until(LARGE)
    await app.until(0)


async def test_connections_that_exceed_the_budget_together_do_not_all_fail(serve: Serve) -> None:
    app = Application()
    message = frame(b"x" * LARGE)
    async with serve(app, body_timeout=20) as (host, port), AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(connected(host, port)) for _ in range(8)]
        for reader, writer in opened:
            await handshake(reader, writer, None)
        for at in range(0, len(message), 10_000):
            for _, writer in opened:
                await send(writer, message[at : at + 10_000])
        await app.until(2 * LARGE)


async def test_small_fragments_take_no_more_memory_than_their_content(serve: Serve) -> None:
    app = Application()
    fragments = frame(b"ab", fin=False) + frame(b"ab", fin=False, opcode=0) * 20_000
    async with serve(app) as (host, port), connected(host, port) as (reader, writer):
        await handshake(reader, writer, None)
        await send(writer, fragments)
        await app.until(2 * 20_001)
        assert app.sockets[0]._content.tell() == 2 * 20_001
        assert not app.sockets[0].frames


async def test_a_message_that_is_held_back_is_not_read(serve: Serve) -> None:
    app = Application()
    large = frame(b"x" * 8_000_000)
    async with (
        serve(app, max_body_bytes=32_000_000) as (host, port),
        connected(host, port) as (reader, writer),
    ):
        app.budget.limit = 32_000_000
        await handshake(reader, writer, None)
        await app.opened.wait()
        app.sockets[0].hold(True)
        sending = asyncio.create_task(send(writer, large))
        await asyncio.sleep(1)  # longer than a message may take
        assert SMALL < app.used < 1_000_000
        assert not sending.done()
        app.sockets[0].hold(False)
        assert await sending
        await app.until(8_000_000)


async def test_no_second_large_message_is_read_before_the_first_is_finished(serve: Serve) -> None:
    app = Application()
    size = 600_000
    async with serve(app) as (host, port), connected(host, port) as (reader, writer):
        await handshake(reader, writer, None)
        sending = asyncio.create_task(send(writer, frame(b"x" * size) * 20))
        for _ in range(3):
            assert len((await app.receives[0]())["text"]) == size
            await asyncio.sleep(0.1)
            assert app.used <= BUDGET
            app.sockets[0].finish(size)
        sending.cancel()
        assert not writer.is_closing()


async def test_small_messages_and_the_end_are_seen_while_messages_are_held_back(
    serve: Serve,
) -> None:
    app = Application()
    async with serve(app) as (host, port):
        async with connected(host, port) as (reader, writer):
            await handshake(reader, writer, None)
            await app.opened.wait()
            app.sockets[0].hold(True)
            await send(writer, frame(b"one") + frame(b"two"))
            for text in ("one", "two"):
                assert (await app.receives[0]())["text"] == text
        async with asyncio.timeout(SECONDS):
            assert (await app.receives[0]())["type"] == "websocket.disconnect"


async def test_nothing_is_read_before_the_handshake_is_accepted(serve: Serve) -> None:
    async def never(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.Event().wait()

    lines = (
        *("connection: Upgrade", "upgrade: websocket", "sec-websocket-version: 13"),
        "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==",
    )
    async with (
        serve(never, header_seconds=3) as (host, port),
        connected(host, port) as (_, writer),
    ):
        await send(writer, head(*lines, method="GET"))
        sending = asyncio.create_task(send(writer, frame(bytes(20_000_000))))
        await asyncio.sleep(0.5)
        assert not sending.done()
        sending.cancel()
