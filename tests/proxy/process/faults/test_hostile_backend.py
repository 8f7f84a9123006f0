"""A backend that is broken or hostile: what it sends is an error of its model alone. The gateway
keeps its memory, and clients of other models their latency."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import psutil
import pytest

from tests.support.apis.sdk_requests import asked
from tests.support.servers import hostile_backend
from tests.support.servers.gateway_process import MASTER_KEY, Gateway, serving
from tests.support.servers.heartbeat import heartbeat
from tests.support.servers.hostile_backend import (
    ATTACKS,
    Attack,
    HostileBackend,
    events,
    streamed,
    usage,
)
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.virtual_keys import make_key
from toolgate_proxy.backend_client import client

CHAT = "/v1/chat/completions"
COUNT = "/v1/messages/count_tokens"
PREFIX = "/v1/toolgate/"
MORE_BYTES = 64_000_000
"""Memory that an attack may take."""
LONGEST_PAUSE = 0.25
"""Seconds in which the gateway may serve no other client."""


@dataclass(frozen=True)
class Attacked:
    gateway: Gateway
    backend: HostileBackend
    redis: RedisServer
    route: str


def always_ask() -> None:
    client.INFO_TTL = 0.0


@pytest.fixture(scope="module", params=["auto", "litellm"])
def attacked(
    request: pytest.FixtureRequest,
    spare_redis: RedisServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Attacked]:
    log = tmp_path_factory.mktemp("hostile") / "log"
    more = {"TOOLGATE_ROUTE": request.param}
    with hostile_backend.running(HostileBackend()) as backend:
        arguments = [f"--model=tiny@{backend.url}"]
        with serving(arguments, backend.url, log, spare_redis.url, always_ask, **more) as gateway:
            yield Attacked(gateway, backend, spare_redis, request.param)


@pytest.fixture
async def http(attacked: Attacked) -> AsyncIterator[httpx.AsyncClient]:
    """The backend is honest before and after each test."""
    headers = bearer(MASTER_KEY)
    async with http_client(attacked.gateway.url, headers=headers, timeout=30) as client:
        attacked.backend.attacks = {"hi": events()}
        async with asyncio.timeout(30):
            while (await client.get("/toolgate/ready/tiny")).status_code != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        response = await client.post(CHAT, json=asked("hi"))
        assert response.status_code == 200, response.text
        yield client
        attacked.backend.routes.clear()


@dataclass
class Memory:
    more: int = 0
    """Bytes, at most."""


@contextmanager
def memory_of(pid: int) -> Iterator[Memory]:
    process, found, ended = psutil.Process(pid), Memory(), threading.Event()
    before = process.memory_info().rss

    def look() -> None:
        while not ended.wait(0.01):
            found.more = max(found.more, process.memory_info().rss - before)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


@pytest.mark.timed
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
async def test_what_a_hostile_backend_sends_is_an_error_of_its_model_alone(
    http: httpx.AsyncClient, attacked: Attacked, attack: Attack
) -> None:
    if attack.path == "count" and attacked.route == "litellm":
        pytest.skip("LiteLLM's route counts no tokens.")
    backend, pid = attacked.backend, attacked.gateway.process.pid
    assert pid is not None
    backend.attacks["attack"] = attack.send if attack.path == "generate" else events()
    if attack.path != "generate":
        backend.routes[PREFIX + attack.path] = attack.send
    path = COUNT if attack.path == "count" else CHAT
    with memory_of(pid) as memory, heartbeat(attacked.gateway.url, pid) as pulse:
        response = await http.post(path, json=asked("attack", **attack.body))
    error = response.json()["error"]
    found = (response.status_code, error.get("code") or error["type"])
    assert found in attack.expected, response.text
    assert memory.more <= MORE_BYTES
    assert pulse.longest <= LONGEST_PAUSE


async def test_the_usage_of_a_hostile_backend_does_not_change_a_budget(
    http: httpx.AsyncClient, attacked: Attacked
) -> None:
    key, _ = await make_key(
        attacked.redis.url, attacked.gateway.url, models=("tiny",), tokens_per_day=100_000
    )
    headers = bearer(key)

    attacked.backend.attacks["honest"] = streamed()  # as for every key with a limit on tokens

    async def left() -> int:
        response = await http.post(CHAT, json=asked("honest", max_tokens=8), headers=headers)
        assert response.status_code == 200, response.text
        return int(response.headers["x-ratelimit-remaining-tokens-day"])

    before = await left()
    for wrong in ({"completion_tokens": -340_000}, {"prompt_tokens": -340_000}):
        attacked.backend.attacks["bad"] = streamed(usage(**wrong))
        response = await http.post(CHAT, json=asked("bad", max_tokens=8), headers=headers)
        assert response.status_code == 502
    assert before - 200 < await left() < before
