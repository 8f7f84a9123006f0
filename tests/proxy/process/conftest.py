"""A gateway on each route, which lives for the session, with its own backend and Redis server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import httpx
import openai
import pytest

from tests.support.servers.fake_backend import FakeBackend, running
from tests.support.servers.gateway_process import MASTER_KEY, Gateway, serving
from tests.support.servers.http_client import bearer, http_client, openai_client
from tests.support.servers.redis_server import RedisServer, redis_server
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import make_key
from toolgate_proxy.stack.processes import free_port


@dataclass(frozen=True)
class Deployed:
    """A gateway whose model `tiny` is the scripted backend; no backend serves its model `down`."""

    gateway: Gateway
    backend: FakeBackend
    redis: RedisServer


@pytest.fixture(scope="session")
def deployed_on(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str], Deployed]]:
    """Start the gateway of a route at the first call. Each lives until the session ends, because a
    module's tests take both routes in turn."""
    with ExitStack() as running_servers:

        @cache
        def deployed(route: str) -> Deployed:
            backend = running_servers.enter_context(running(FakeBackend()))
            redis = running_servers.enter_context(redis_server())
            arguments = ["--model", "tiny", "--model", f"down=tiny@http://127.0.0.1:{free_port()}"]
            log = tmp_path_factory.mktemp("gateway") / "log"
            way = {"TOOLGATE_ROUTE": "litellm"} if route == "litellm" else {}
            gateway = serving(arguments, backend.url, log, redis.url, **way)
            return Deployed(running_servers.enter_context(gateway), backend, redis)

        yield deployed


@pytest.fixture(scope="session", params=["own", "litellm"])
def route(request: pytest.FixtureRequest) -> str:
    """Whether the gateway's own route or LiteLLM's handler answers chat completions."""
    return str(request.param)


@pytest.fixture(scope="session")
def deployed(route: str, deployed_on: Callable[[str], Deployed]) -> Deployed:
    return deployed_on(route)


@pytest.fixture(scope="session")
def gateway_of_session(deployed: Deployed) -> Gateway:
    return deployed.gateway


@pytest.fixture(scope="session")
def redis_of_gateway(deployed: Deployed) -> RedisServer:
    return deployed.redis


@pytest.fixture
def backend(deployed: Deployed) -> FakeBackend:
    """The gateway's backend without scripts and records of earlier tests."""
    deployed.backend.clear()
    return deployed.backend


@pytest.fixture
def spare_backend(backend_of_session: FakeBackend) -> FakeBackend:
    """A backend for gateways that a test starts itself."""
    backend_of_session.clear()
    return backend_of_session


@pytest.fixture(scope="module")
def spare_redis() -> Iterator[RedisServer]:
    """A Redis server for gateways that a module starts itself."""
    with redis_server() as server:
        yield server


@pytest.fixture
def gateway(gateway_of_session: Gateway) -> Iterator[str]:
    """The gateway's base URL. If it ends during a test, that test fails with the end of its log."""
    yield gateway_of_session.url
    gateway_of_session.require_alive()


@pytest.fixture
def gateway_log(gateway_of_session: Gateway) -> Path:
    return gateway_of_session.log


@pytest.fixture
async def http(gateway: str) -> AsyncIterator[httpx.AsyncClient]:
    headers = bearer(MASTER_KEY)
    async with http_client(gateway, headers=headers, timeout=30) as client:
        yield client


@pytest.fixture
async def client(gateway: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai_client(gateway, MASTER_KEY) as client:
        yield client


@pytest.fixture
async def key(gateway: str, redis_of_gateway: RedisServer, backend: FakeBackend) -> str:
    """An ordinary key for `tiny`, which responds "Hello there" to "hi"."""
    backend.scripts["hi"] = Script(("Hello there",))
    sent, _ = await make_key(redis_of_gateway.url, gateway, models=("tiny",), rpm=1000)
    return sent
