"""Bodies at and over each bound, and attacks on memory, at a running gateway with small limits.

During each one, the gateway's memory stays within bounds and its event loop does not pause. The
bounds themselves and the deadlines of connections are in tests/proxy/server/transport.
"""

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import urlsplit

import psutil
import pytest

from tests.proxy.process.kit import HI
from tests.support.apis.body_cases import CASES, CHAT, LIMITS, MAX_BODY, chat
from tests.support.attacks.wire import connected, head, send, stalled_bodies
from tests.support.effort import sampled
from tests.support.servers.fake_backend import INFO, FakeBackend, running
from tests.support.servers.gateway_process import MASTER_KEY, Gateway, serving
from tests.support.servers.heartbeat import heartbeat
from tests.support.servers.http_client import http_client
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import make_key
from tests.support.waiting import until
from toolgate_proxy.server import http_protocol

BODY_SECONDS = 2
LONGEST_PAUSE = 0.25
"""Seconds, in addition to the longest pause of the idle gateway."""
TRIES = 3
"""One of them must have no long pause. Other work on the machine also causes pauses."""
RETURNED = 1.1
"""Maximum resident memory after many large bodies, relative to that before."""
GROWTH = 64_000_000
"""Bytes of memory that an attack may add. Without bounds each of them adds more."""
PART = 60_000
"""Bytes in one chunk of a body."""
LARGE = ("7 MB of text", "over the limit", "4 million numbers", "2.5 million objects", "compressed")


@dataclass(frozen=True)
class Attacked:
    gateway: Gateway
    idle_pause: float
    """The longest pause of its loop while it was idle."""
    limited: str
    """A key with one request at once."""
    unlimited: str
    """A key without that limit."""

    @property
    def pid(self):
        assert self.gateway.process.pid is not None
        return self.gateway.process.pid

    @property
    def place(self):
        url = urlsplit(self.gateway.url)
        return str(url.hostname), int(url.port or 0)

    def resident(self):
        """Bytes of memory of the gateway's process."""
        return int(psutil.Process(self.pid).memory_info().rss)


def tighten_bounds():
    http_protocol.HEADER_SECONDS, http_protocol.WRITE_SECONDS = 1.0, 2.0


@pytest.fixture(scope="module")
def attacked(tmp_path_factory, spare_redis):
    backend = FakeBackend()
    backend.info = INFO.model_copy(update={"limits": LIMITS})
    backend.scripts["hi"] = Script(("Hello there",))
    log, redis = tmp_path_factory.mktemp("attacked") / "log", spare_redis.url
    limits = {"TOOLGATE_MAX_BODY_BYTES": str(MAX_BODY), "TOOLGATE_BODY_TIMEOUT": str(BODY_SECONDS)}
    arguments = ["--model", "tiny"]
    with (
        running(backend),
        serving(arguments, backend.url, log, redis, tighten_bounds, **limits) as gateway,
    ):

        async def keys():
            limited, _ = await make_key(redis, gateway.url, max_parallel_requests=1)
            unlimited, _ = await make_key(redis, gateway.url, rpm=100_000)
            return limited, unlimited

        made = Attacked(gateway, 0.0, *asyncio.run(keys()))
        with heartbeat(gateway.url, made.pid) as idle:
            time.sleep(1)
        yield replace(made, idle_pause=idle.longest)


@pytest.fixture
async def http(attacked):
    async with http_client(attacked.gateway.url, MASTER_KEY, timeout=60) as client:
        yield client


async def sent(http, case, content, *, chunked):
    async def parts():
        for at in range(0, len(content), PART):
            yield content[at : at + PART]

    headers = {"content-type": "application/json"} | case.headers
    body = parts() if chunked else content
    return await http.post(case.path, content=body, headers=headers)


@sampled("name, chunked", CASES, [False, True], one_in=8)
async def test_a_body_gets_its_status_and_does_not_block_the_loop(attacked, http, name, chunked):
    case, pauses = CASES[name], list[float]()
    content = case.make()
    for _ in range(TRIES):
        with heartbeat(attacked.gateway.url, attacked.pid) as found:
            response = await sent(http, case, content, chunked=chunked)
        assert response.status_code in case.statuses, response.text[:500]
        assert len(response.content) < 5_000
        if response.status_code != 200:
            error = response.json()["error"]
            assert error["message"]
            assert case.code in (None, error["code"])
        pauses.append(found.longest)
        if found.longest < attacked.idle_pause + LONGEST_PAUSE:
            return
    pytest.fail(f"pauses of {pauses} s, {attacked.idle_pause:.3f} s when idle")


async def test_memory_is_returned(attacked, http):
    """The first round loads what is loaded lazily, and the allocator gets its first pages."""
    contents = {name: CASES[name].make() for name in LARGE}

    async def send_all():
        for name, content in contents.items():
            await sent(http, CASES[name], content, chunked=False)
        return attacked.resident()

    before = await send_all()
    after = [await send_all() for _ in range(2)]
    assert after[-1] <= RETURNED * before, f"{before:,} bytes, then {after}"


async def test_without_a_valid_key_the_body_is_not_read(attacked):
    """The response comes although no byte of the body was sent. A key in a trailer is none."""
    content = chat()
    trailer = b"%x\r\n%s\r\n0\r\nauthorization: Bearer %s\r\n\r\n"
    tried = [
        head(length, key=key)
        for length in ("content-length: 50000000", "transfer-encoding: chunked")
        for key in (None, "sk-tg-wrong")
    ]
    tried.append(
        head("transfer-encoding: chunked") + trailer % (len(content), content, MASTER_KEY.encode())
    )
    for message in tried:
        async with connected(*attacked.place) as (reader, writer):
            await send(writer, message)
            assert (await reader.read(65_536)).startswith(b"HTTP/1.1 401 ")


async def test_an_endless_body_without_a_key_grows_nothing_and_ends(attacked):
    before, chunk, size = attacked.resident(), b"%x\r\n%s\r\n" % (PART, b"x" * PART), 0
    with heartbeat(attacked.gateway.url, attacked.pid) as found:
        async with connected(*attacked.place) as (reader, writer):
            await send(writer, head("transfer-encoding: chunked"))
            assert (await reader.read(65_536)).startswith(b"HTTP/1.1 401 ")
            async with asyncio.timeout(60):
                while await send(writer, chunk):
                    size += PART
    assert attacked.resident() <= RETURNED * before + size / 4
    assert found.longest < attacked.idle_pause + 2 * LONGEST_PAUSE


@asynccontextmanager
async def bounded(attacked):
    """All are served, after a while for the requests of the attack to end."""
    with heartbeat(attacked.gateway.url, attacked.pid) as found:
        yield
    assert found.growth < GROWTH
    assert found.longest < attacked.idle_pause + LONGEST_PAUSE
    for key in (MASTER_KEY, attacked.limited, attacked.unlimited):
        async with http_client(attacked.gateway.url, key, timeout=30) as http:
            await until(partial(http.post, CHAT, json=HI), 10, lambda each: each.is_success)


@pytest.mark.timed
@pytest.mark.parametrize(("path", "chunked"), [(CHAT, False), ("/health/liveliness", True)])
async def test_stalled_bodies_of_one_key_are_bounded(attacked, path, chunked):
    """Those of an open route have no key."""
    key = attacked.limited if path == CHAT else None
    async with bounded(attacked):
        received = await stalled_bodies(
            *(*attacked.place, key),
            connections=25,
            size=MAX_BODY // 2,
            seconds=8,
            chunked=chunked,
            path=path,
        )
    statuses = [each.split(b" ", 2)[1] for each in received]
    assert len(statuses) == 25
    assert set(statuses) <= {b"408", b"429"}
