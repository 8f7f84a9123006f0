"""Bodies at and over each bound, sent to a running gateway: right status, no long pause, no growth.

The gateway has small limits, and its time limits are shorter than those of the test's client.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from tests.support.apis.body_cases import CASES, CHAT, LIMITS, MAX_BODY, Case, chat
from tests.support.servers.fake_backend import INFO, FakeBackend, running
from tests.support.servers.gateway_process import MASTER_KEY, Gateway, serving
from tests.support.servers.heartbeat import heartbeat
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.script import Script
from toolgate_proxy.server.transport import http_protocol

HEADER_SECONDS = 1.0
BODY_SECONDS = 1.5
LONGEST_PAUSE = 0.25
"""Seconds, in addition to the longest pause of the idle gateway."""
TRIES = 3
"""One of them must have no long pause. Other work on the machine also causes pauses."""
GROWTH = 1.1
"""Maximum resident memory after many large bodies, relative to that before."""
ROUNDS = 2
PART = 60_000
"""Bytes in one chunk of a body."""


@dataclass(frozen=True)
class Bounded:
    """A running gateway, and the longest pause of its loop while it was idle."""

    gateway: Gateway
    idle_pause: float


def shorten_headers() -> None:
    http_protocol.HEADER_SECONDS = HEADER_SECONDS


@pytest.fixture(scope="module")
def bounded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bounded]:
    backend = FakeBackend()
    backend.info = INFO.model_copy(update={"limits": LIMITS})
    backend.scripts["hi"] = Script(("Hello there",))
    log = tmp_path_factory.mktemp("bounded") / "log"
    limits = {
        "TOOLGATE_MAX_BODY_BYTES": str(MAX_BODY),
        "TOOLGATE_BODY_TIMEOUT": str(BODY_SECONDS),
    }
    with (
        running(backend),
        serving(["--model", "tiny"], backend.url, log, None, shorten_headers, **limits) as gateway,
    ):
        with heartbeat(gateway.url, pid_of(gateway)) as idle:
            time.sleep(1)
        yield Bounded(gateway, idle.longest)


@pytest.fixture
def gateway(bounded: Bounded) -> Gateway:
    return bounded.gateway


@pytest.fixture
async def http(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with http_client(gateway.url, headers=bearer(MASTER_KEY), timeout=30) as client:
        yield client


async def send(
    http: httpx.AsyncClient, case: Case, content: bytes, *, chunked: bool
) -> httpx.Response:
    async def parts() -> AsyncIterator[bytes]:
        for at in range(0, len(content), PART):
            yield content[at : at + PART]

    headers = {"content-type": "application/json"} | case.headers
    body = parts() if chunked else content
    return await http.post(case.path, content=body, headers=headers)


@pytest.mark.parametrize("chunked", [False, True], ids=["whole", "chunked"])
@pytest.mark.parametrize("name", CASES)
async def test_a_body_gets_its_status_and_does_not_block_the_loop(
    bounded: Bounded, http: httpx.AsyncClient, name: str, chunked: bool
) -> None:
    case, pauses = CASES[name], list[float]()
    content = case.make()
    for _ in range(TRIES):
        with heartbeat(bounded.gateway.url, pid_of(bounded.gateway)) as found:
            response = await send(http, case, content, chunked=chunked)
        assert response.status_code in case.statuses, response.text[:500]
        assert len(response.content) < 5_000
        if response.status_code != 200:
            error = response.json()["error"]
            assert error["message"]
            assert case.code in (None, error["code"])
        pauses.append(found.longest)
        if found.longest < bounded.idle_pause + LONGEST_PAUSE:
            return
    pytest.fail(f"pauses of {pauses} s, {bounded.idle_pause:.3f} s when idle")


async def test_memory_is_returned(gateway: Gateway, http: httpx.AsyncClient) -> None:
    """The first round loads what is loaded lazily, and the allocator gets its first pages."""
    contents = {name: case.make() for name, case in CASES.items()}

    async def send_all() -> int:
        for name, case in CASES.items():
            await send(http, case, contents[name], chunked=False)
        return resident(gateway)

    before = await send_all()
    after = [await send_all() for _ in range(ROUNDS)]
    assert after[-1] <= GROWTH * before, f"{before:,} bytes, then {after}"


def resident(gateway: Gateway) -> int:
    """Bytes of memory of the gateway's process."""
    return int(psutil.Process(pid_of(gateway)).memory_info().rss)


def pid_of(gateway: Gateway) -> int:
    assert gateway.process.pid is not None
    return gateway.process.pid


@contextmanager
def connected(gateway: Gateway) -> Iterator[socket.socket]:
    host, _, port = urlsplit(gateway.url).netloc.partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        yield connection


def head(key: str | None, *lines: str) -> bytes:
    sent = [f"POST {CHAT} HTTP/1.1", "host: gateway", "content-type: application/json", *lines]
    if key is not None:
        sent.append(f"authorization: Bearer {key}")
    return "\r\n".join([*sent, "", ""]).encode()


def read_to_end(connection: socket.socket) -> bytes:
    """All bytes until the gateway closes the connection."""
    received = b""
    with suppress(ConnectionResetError):
        while part := connection.recv(65_536):
            received += part
    return received


@pytest.mark.parametrize(
    "begun",
    [b"", b"POST ", head(MASTER_KEY)[:-4], b"GET /health/liveliness HTTP/1.1\r\nx: "],
    ids=["nothing", "method", "headers", "header"],
)
def test_a_connection_with_stalled_headers_is_closed(gateway: Gateway, begun: bytes) -> None:
    with connected(gateway) as connection:
        connection.sendall(begun)
        assert read_to_end(connection) == b""


def test_a_slow_client_that_sends_its_headers_in_bytes_is_closed(gateway: Gateway) -> None:
    """Each byte comes in time, but not all of them."""
    with connected(gateway) as connection:
        with suppress(ConnectionError):
            for byte in head(MASTER_KEY, f"x: {'y' * 200}"):
                connection.sendall(bytes([byte]))
                time.sleep(0.02)
            pytest.fail("the gateway waited for all headers")
        assert read_to_end(connection) == b""


@pytest.mark.parametrize("begun", [b"", chat()[:10]], ids=["nothing", "part"])
def test_a_stalled_body_is_a_408(gateway: Gateway, begun: bytes) -> None:
    with connected(gateway) as connection:
        connection.sendall(head(MASTER_KEY, f"content-length: {len(chat())}") + begun)
        received = read_to_end(connection)
        assert received.startswith(b"HTTP/1.1 408 ")
        assert b"request_timeout" in received


@pytest.mark.parametrize("length", ["content-length: 50000000", "transfer-encoding: chunked"])
@pytest.mark.parametrize("key", [None, "sk-tg-wrong"], ids=["no-key", "wrong-key"])
def test_without_a_valid_key_the_body_is_not_read(
    gateway: Gateway, key: str | None, length: str
) -> None:
    """The response comes although no byte of the body was sent."""
    with connected(gateway) as connection:
        connection.sendall(head(key, length))
        assert connection.recv(65_536).startswith(b"HTTP/1.1 401 ")


async def test_an_endless_body_without_a_key_grows_nothing_and_ends(
    bounded: Bounded, gateway: Gateway
) -> None:
    before = resident(gateway)
    with heartbeat(gateway.url, pid_of(gateway)) as found:
        received, sent = await asyncio.to_thread(send_endless, gateway)
    assert received.startswith(b"HTTP/1.1 401 ")
    assert resident(gateway) <= GROWTH * before + sent / 4
    assert found.longest < bounded.idle_pause + 2 * LONGEST_PAUSE


def send_endless(gateway: Gateway) -> tuple[bytes, int]:
    """What the gateway sent before it closed the connection, and the bytes that were sent to it."""
    chunk = b"%x\r\n%s\r\n" % (PART, b"x" * PART)
    sent, received = 0, b""
    with connected(gateway) as connection:
        connection.sendall(head(None, "transfer-encoding: chunked"))
        received = connection.recv(65_536)
        ends = time.monotonic() + 20
        with suppress(ConnectionError):
            while time.monotonic() < ends:
                connection.sendall(chunk)
                sent += PART
            pytest.fail("the gateway accepted a body without end")
    return received, sent


def test_the_gateway_still_works(gateway: Gateway, tmp_path: Path) -> None:
    """After all of the above."""
    response = httpx.post(
        gateway.url + CHAT, content=chat(), headers=bearer(MASTER_KEY), timeout=60, trust_env=False
    )
    assert response.json()["choices"][0]["message"]["content"] == "Hello there"
