"""One gateway process and one scripted backend for the whole session."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import openai
import pytest

from tests.support.fake_backend import FakeBackend, running
from tests.support.gateway_process import MASTER_KEY, Gateway, serving
from tests.support.redis_server import RedisServer, redis_server
from tests.support.script import Script
from tests.support.virtual_keys import make_key
from toolgate_proxy.stack.processes import free_port


@pytest.fixture(scope="session")
def backend_of_session() -> Iterator[FakeBackend]:
    with running(FakeBackend()) as backend:
        yield backend


@pytest.fixture
def backend(backend_of_session: FakeBackend) -> FakeBackend:
    backend_of_session.scripts.clear()
    backend_of_session.requests.clear()
    backend_of_session.loads.clear()
    backend_of_session.left.clear()
    backend_of_session.sources.clear()
    backend_of_session.compiles.clear()
    backend_of_session.residual.clear()
    backend_of_session.load_pause = 0.0
    backend_of_session.lacking = 0
    return backend_of_session


@pytest.fixture(scope="session")
def redis_of_gateway() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture
def redis_at_hand() -> Iterator[RedisServer]:
    """One for a test alone, which may do to it what it likes."""
    with redis_server() as server:
        yield server


@pytest.fixture(scope="session", params=["own", "litellm"])
def route(request: pytest.FixtureRequest) -> str:
    """Which way chat completions go: by the gateway's own route, or by LiteLLM's handler."""
    return str(request.param)


@pytest.fixture(scope="session")
def gateway_of_session(
    route: str,
    backend_of_session: FakeBackend,
    redis_of_gateway: RedisServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Gateway]:
    """`toolgate proxy`: `tiny` is the scripted backend, nobody serves `down`."""
    command = [sys.executable, "-m", "toolgate_proxy", "proxy"]
    command += ["--model", "tiny", "--model", f"down=tiny@http://127.0.0.1:{free_port()}"]
    log = tmp_path_factory.mktemp("gateway") / "log"
    way = {"TOOLGATE_ROUTE": "litellm"} if route == "litellm" else {}
    redis_of_gateway.client.flushall()  # what the gateway before it left
    backend_of_session.forget()
    with serving(command, backend_of_session.url, log, redis_of_gateway.url, **way) as gateway:
        yield gateway


@pytest.fixture
def gateway(gateway_of_session: Gateway) -> Iterator[str]:
    """Its base URL. The test in which it died says so, with the end of its log."""
    yield gateway_of_session.url
    gateway_of_session.require_alive()


@pytest.fixture
def gateway_log(gateway_of_session: Gateway) -> Path:
    return gateway_of_session.log


@pytest.fixture
async def http(gateway: str) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {MASTER_KEY}"}
    async with httpx.AsyncClient(base_url=gateway, headers=headers, timeout=30) as client:
        yield client


@pytest.fixture
async def client(gateway: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=f"{gateway}/v1", api_key=MASTER_KEY, max_retries=0, timeout=30
    ) as client:
        yield client


@pytest.fixture
async def key(gateway: str, redis_of_gateway: RedisServer, backend: FakeBackend) -> str:
    """An ordinary one, for `tiny`, which answers "hi"."""
    backend.scripts["hi"] = Script(("Hello there",))
    sent, _ = await make_key(redis_of_gateway.url, gateway, models=("tiny",), rpm=1000)
    return sent
