"""One gateway process for the session on each route, in front of the session's backend."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import openai
import pytest

from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.gateway_process import MASTER_KEY, Gateway, preload, serving
from tests.support.servers.http_client import http_client, openai_client
from tests.support.servers.redis_server import RedisServer, redis_server
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import make_key
from toolgate_proxy.stack.processes import free_port

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker("litellm_process")


def pytest_collection_finish(session: pytest.Session) -> None:
    """LiteLLM is imported while other tests run."""
    if any(item.path.is_relative_to(HERE) for item in session.items):
        preload()


@pytest.fixture(scope="session")
def redis_of_gateway() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture(scope="session", params=["own", "litellm"])
def route(request: pytest.FixtureRequest) -> str:
    """Whether the gateway's own route or LiteLLM's handler answers chat completions."""
    return str(request.param)


@pytest.fixture(scope="session")
def gateway_of_session(
    route: str,
    backend_of_session: FakeBackend,
    redis_of_gateway: RedisServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Gateway]:
    """A gateway whose model `tiny` is the scripted backend; no backend serves its model `down`."""
    arguments = ["--model", "tiny", "--model", f"down=tiny@http://127.0.0.1:{free_port()}"]
    log = tmp_path_factory.mktemp("gateway") / "log"
    way = {"TOOLGATE_ROUTE": "litellm"} if route == "litellm" else {}
    redis_of_gateway.client.flushall()  # what the gateway before it left
    backend_of_session.forget()
    with serving(arguments, backend_of_session.url, log, redis_of_gateway.url, **way) as gateway:
        yield gateway


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
    headers = {"Authorization": f"Bearer {MASTER_KEY}"}
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
