"""WebSocket connections that LiteLLM serves are bounded for each virtual key as well."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from starlette.types import Receive, Scope, Send

from tests.proxy.server.transport.conftest import Serve
from tests.support.attacks.socket_messages import frame, handshake
from tests.support.attacks.wire import connected, read_to_end, send
from tests.support.servers.gateway_process import KEY_SECRET
from tests.support.servers.virtual_keys import key_of
from tests.support.waiting import until
from toolgate_proxy.keys.key import new_key
from toolgate_proxy.litellm_host import auth
from toolgate_proxy.server import responses_socket
from toolgate_proxy.server.responses_socket import ResponsesSocket
from toolgate_proxy.state import gateway

PATH = "/v1/realtime"
SECONDS = 5.0


class LiteLlm:
    """Takes each message when the test allows it."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.takes = asyncio.Semaphore(0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert (await receive())["type"] == "websocket.connect"
        await send({"type": "websocket.accept"})
        while True:
            await self.takes.acquire()
            message = await receive()
            if message["type"] == "websocket.disconnect":
                return
            self.sizes.append(len(message["text"]))


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A key with one connection."""
    monkeypatch.setenv("TOOLGATE_KEY_SECRET", KEY_SECRET)
    monkeypatch.setenv("TOOLGATE_MASTER_KEY", "sk-master-of-this-test")
    monkeypatch.setattr(responses_socket, "are_all_ours", lambda: False)
    monkeypatch.setattr(auth, "is_ours", lambda: True)
    gateway.cache_clear()
    key_sync, sent = gateway().key_sync, new_key()
    assert key_sync is not None
    key_sync.key_cache.replace([], [key_of(sent, max_parallel_requests=1)])
    monkeypatch.setattr(key_sync, "started", no_wait)
    yield sent
    gateway.cache_clear()


async def no_wait() -> None:
    """Keys are there."""


async def test_messages_count_until_litellm_takes_them(serve: Serve, sent: str) -> None:
    app = LiteLlm()
    async with (
        serve(ResponsesSocket(app)) as (host, port),
        connected(host, port) as (reader, writer),
    ):
        assert (await handshake(reader, writer, sent, PATH))[0] == 101
        await send(writer, frame(b"x" * 100_000))
        await until_used(100_000)
        app.takes.release()
        await until_used(0)
        assert app.sizes == [100_000]


async def test_a_key_has_as_many_connections_as_its_limit(serve: Serve, sent: str) -> None:
    async with (
        serve(ResponsesSocket(LiteLlm())) as (host, port),
        connected(host, port) as (reader, writer),
        connected(host, port) as (other, to_other),
    ):
        assert (await handshake(reader, writer, sent, PATH))[0] == 101
        assert (await handshake(other, to_other, sent, PATH))[0] == 429
        received, closed = await read_to_end(other, SECONDS)
        assert closed
        assert b"rate_limit_exceeded" in received


async def until_used(size: int) -> None:
    await until(lambda: sum(gateway().bodies._used.values()) == size)
