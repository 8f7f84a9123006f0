"""Attacks on connections and memory, against a running gateway with small limits.

During each one, the gateway's memory stays within bounds and its event loop does not pause.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from tests.support.attacks.wire import (
    STATES,
    connected,
    endless_trailers,
    head,
    read_to_end,
    send,
    stalled_bodies,
    stalled_connections,
)
from tests.support.servers.fake_backend import FakeBackend, running
from tests.support.servers.gateway_process import MASTER_KEY, Gateway, serving
from tests.support.servers.heartbeat import heartbeat
from tests.support.servers.http_client import bearer
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import make_key
from toolgate_proxy.server import launcher
from toolgate_proxy.server.transport import http_protocol

MAX_BODY = 4_000_000
LONGEST_PAUSE = 0.25
"""Seconds."""
GROWTH = 64_000_000
"""Bytes of memory that an attack may add. Without bounds each of them adds more."""
CHAT = "/v1/chat/completions"
HI = {"role": "user", "content": "hi"}
BODY = {"model": "tiny", "messages": [HI]}
LIMITS = {
    "TOOLGATE_MAX_BODY_BYTES": str(MAX_BODY),
    "TOOLGATE_BODY_TIMEOUT": "2",
}


@dataclass(frozen=True)
class Attacked:
    gateway: Gateway
    host: str
    port: int
    limited: str
    """A key with one request at once."""
    unlimited: str
    """A key without that limit."""


def tighten_bounds() -> None:
    launcher.KEEP_ALIVE_SECONDS = 1
    http_protocol.HEADER_SECONDS, http_protocol.WRITE_SECONDS = 1.0, 2.0


@pytest.fixture(scope="module")
def attacked(
    tmp_path_factory: pytest.TempPathFactory, spare_redis: RedisServer
) -> Iterator[Attacked]:
    backend = FakeBackend()
    backend.scripts["hi"] = Script(("Hello there",))
    log = tmp_path_factory.mktemp("attacked") / "log"
    arguments = ["--model", "tiny"]
    redis = spare_redis.url
    with (
        running(backend),
        serving(arguments, backend.url, log, redis, tighten_bounds, **LIMITS) as gateway,
    ):
        url = urlsplit(gateway.url)
        assert url.hostname is not None
        assert url.port is not None

        async def keys() -> tuple[str, str]:
            limited, _ = await make_key(redis, gateway.url, max_parallel_requests=1)
            unlimited, _ = await make_key(redis, gateway.url, rpm=100_000)
            return limited, unlimited

        yield Attacked(gateway, url.hostname, url.port, *asyncio.run(keys()))


@asynccontextmanager
async def bounded(attacked: Attacked) -> AsyncIterator[None]:
    """Memory is measured all the time, so that what is freed at the end counts as well."""
    pid = attacked.gateway.process.pid
    assert pid is not None
    process = psutil.Process(pid)
    before = highest = process.memory_info().rss
    ended = asyncio.Event()

    async def measure() -> None:
        nonlocal highest
        while not ended.is_set():
            highest = max(highest, process.memory_info().rss)
            await asyncio.sleep(0.02)

    measuring = asyncio.create_task(measure())
    with heartbeat(attacked.gateway.url, pid) as found:
        yield
    ended.set()
    await measuring
    assert highest - before < GROWTH
    assert found.longest < LONGEST_PAUSE
    await asyncio.to_thread(expect_service, attacked)


def expect_service(attacked: Attacked) -> None:
    """After a while for the requests of the attack to end."""
    ends = time.monotonic() + 10
    for key in (MASTER_KEY, attacked.limited, attacked.unlimited):
        url = attacked.gateway.url + CHAT
        while True:
            response = httpx.post(url, json=BODY, headers=bearer(key), timeout=30, trust_env=False)
            if response.status_code == 200:
                break
            assert time.monotonic() < ends, response.text
            time.sleep(0.1)


@pytest.mark.timed
async def test_trailers_without_end_need_no_memory(attacked: Attacked) -> None:
    async with bounded(attacked):
        sent = await endless_trailers(attacked.host, attacked.port, size=100_000_000, seconds=20)
    assert sent < 20_000_000


async def test_a_key_in_a_trailer_does_not_authenticate(attacked: Attacked) -> None:
    content = json.dumps(BODY).encode()
    chunks = b"%x\r\n%s\r\n0\r\nauthorization: Bearer %s\r\n\r\n"
    sent = head("transfer-encoding: chunked") + chunks % (
        len(content),
        content,
        MASTER_KEY.encode(),
    )
    async with connected(attacked.host, attacked.port) as (reader, writer):
        await send(writer, sent)
        received, closed = await read_to_end(reader, 10)
    assert closed
    assert received.startswith(b"HTTP/1.1 401 ")


async def test_large_headers_at_once_are_a_431(attacked: Attacked) -> None:
    async with connected(attacked.host, attacked.port) as (reader, writer):
        await send(writer, head("x: " + "y" * 200_000, key=MASTER_KEY))
        received, closed = await read_to_end(reader, 10)
    assert closed
    assert received.startswith(b"HTTP/1.1 431 ")


@pytest.mark.timed
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("path", [CHAT, "/health/liveliness"])
async def test_stalled_bodies_of_one_key_are_bounded(
    attacked: Attacked, path: str, chunked: bool
) -> None:
    """Those of an open route have no key."""
    key = attacked.limited if path == CHAT else None
    async with bounded(attacked):
        received = await stalled_bodies(
            *(attacked.host, attacked.port, key),
            connections=25,
            size=MAX_BODY - 1,
            seconds=8,
            chunked=chunked,
            path=path,
        )
    statuses = [each.split(b" ", 2)[1] for each in received]
    assert len(statuses) == 25
    assert set(statuses) <= {b"408", b"429"}


async def test_bodies_of_one_key_wait_for_each_other(attacked: Attacked) -> None:
    """All are answered, though their sum is above the bound."""
    long = {"role": "user", "content": "x" * 3_000_000}
    content = json.dumps({"model": "tiny", "messages": [long, HI]}).encode()
    headers = bearer(attacked.unlimited) | {"content-type": "application/json"}
    async with httpx.AsyncClient(base_url=attacked.gateway.url, timeout=60) as http:
        sent = [http.post(CHAT, content=content, headers=headers) for _ in range(8)]
        statuses = {response.status_code for response in await asyncio.gather(*sent)}
    assert len(statuses) == 1
    assert statuses <= {200, 400}  # 400: longer than the context


@pytest.mark.timed
async def test_connections_that_stall_in_any_state_are_closed(attacked: Attacked) -> None:
    began = time.monotonic()
    async with bounded(attacked):
        left = await stalled_connections(attacked.host, attacked.port, each=5, seconds=20)
    assert set(left) == set(STATES)
    assert not +left, time.monotonic() - began
