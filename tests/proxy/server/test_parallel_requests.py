"""`max_parallel_requests` of deployments, on each API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import litellm
import pytest

from tests.support.litellm.fallbacks import APIS, STREAM
from tests.support.litellm.own_route import PATHS, Gateway, Response, body_of, ours
from tests.support.litellm.router import Row, use
from tests.support.servers.fake_backend import FakeBackend, running
from tests.support.servers.script import Script
from tests.support.waiting import until
from toolgate_proxy.litellm_host.deployments import own_route
from toolgate_proxy.litellm_host.deployments.selection import SelectionHook
from toolgate_proxy.stack.processes import free_port

ROUTED = pytest.mark.parametrize(
    "settings",
    [{}, {"routing_strategy": "usage-based-routing-v2"}],
    ids=["own strategy", "router"],
)


@pytest.fixture(autouse=True)
def _scripts(gateway: Gateway) -> None:
    gateway.backend.scripts["hang"] = Script(("Hello there",), hang_after=2)


async def ask(gateway: Gateway, api: str = "chat", leave: Any = None, **params: Any) -> Response:
    return await gateway.ask(body_of(api, **params), path=PATHS[api], leave_after=leave)


@asynccontextmanager
async def held(gateway: Gateway, backend: FakeBackend, **params: Any) -> AsyncIterator[None]:
    """Runs while another request is in flight at the backend."""
    leave, before = asyncio.Event(), len(backend.requests)
    asking = asyncio.create_task(ask(gateway, leave=leave, content="hang", **params))
    await until(lambda: len(backend.requests) > before)
    try:
        yield
    finally:
        leave.set()
        await asking


def limited(backend: FakeBackend, name: str = "a", group: str = "tiny") -> Row:
    made = ours(backend, group, max_parallel_requests=1)
    made["model_info"]["id"] = name
    return made


@APIS
@STREAM
@ROUTED
async def test_request_beyond_the_limit_is_refused_until_another_one_ends(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str, stream: bool, settings: Any
) -> None:
    use(monkeypatch, limited(gateway.backend), **settings)
    async with held(gateway, gateway.backend, api=api, stream=stream):
        refused = await ask(gateway, api)
        assert (refused.status, refused.context.error_code) == (429, "rate_limit_exceeded")
        assert refused.headers[b"retry-after"] == b"1"
        assert b"max_parallel_requests" in b"".join(refused.bodies)
    assert (await ask(gateway, api, stream=stream)).status == 200
    assert not gateway.host.passed


async def test_failed_requests_leave_no_slot_taken(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, limited(gateway.backend))
    gateway.backend.scripts["breaks"] = Script(("x",), error_after=0)
    for body in ({"content": "breaks"}, {"temperature": "hot"}, {"content": "breaks"}):
        assert (await ask(gateway, **body)).status in (400, 500, 502)
    assert (await ask(gateway)).status == 200


@pytest.fixture
def second() -> Any:
    with running(FakeBackend()) as backend:
        backend.scripts["hi"] = Script(("From the second one",))
        yield backend


@ROUTED
async def test_request_goes_to_a_deployment_with_a_free_slot(
    gateway: Gateway, second: FakeBackend, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    use(monkeypatch, limited(gateway.backend), limited(second, "b"), **settings)
    hook = SelectionHook(own_route.selection(), gateway.here.deployments)
    monkeypatch.setattr(litellm, "callbacks", [hook])
    second.scripts["hang"] = gateway.backend.scripts["hang"]
    leave = asyncio.Event()
    asking = [asyncio.create_task(ask(gateway, leave=leave, content="hang")) for _ in range(2)]
    await until(lambda: len(gateway.backend.requests) == len(second.requests) == 1)
    assert (await ask(gateway)).status == 429
    leave.set()
    await asyncio.gather(*asking)
    assert (await ask(gateway)).status == 200


async def test_refused_request_goes_on_to_a_fallback(
    gateway: Gateway, second: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = limited(gateway.backend), limited(second, "b", "other")
    use(monkeypatch, *rows, fallbacks=[{"tiny": ["other"]}])
    async with held(gateway, gateway.backend):
        response = await ask(gateway)
    assert (response.status, response.text) == (200, "From the second one")


async def test_request_that_moves_to_another_backend_takes_a_slot_there(
    gateway: Gateway, second: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = ours(gateway.backend, max_parallel_requests=9, weight=1)
    gone["litellm_params"]["api_base"] = f"http://127.0.0.1:{free_port()}"
    second.scripts["hang"] = gateway.backend.scripts["hang"]
    other = limited(second, "b")
    other["litellm_params"]["weight"] = 0
    use(monkeypatch, gone, other)
    async with held(gateway, second):
        refused = await ask(gateway)
        assert refused.status in (429, 503)
    assert len(second.requests) == 1
    assert (await ask(gateway)).status == 200
