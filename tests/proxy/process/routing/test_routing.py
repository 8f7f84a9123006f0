"""LiteLLM's routing strategies with our provider, on both routes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from importlib.metadata import version
from typing import Any

import httpx
import pytest
import yaml
from packaging.version import Version

from tests.support.servers.backends import Backends, backends_of
from tests.support.servers.gateway_process import MASTER_KEY, serving
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.script import Script
from toolgate_proxy.server.launcher import Route, make_config

CHAT = "/v1/chat/completions"
# A model for each test of least-busy: LiteLLM goes on counting some requests that clients left.
BUSY = {"busy": ("waits", True), "busy-whole": ("waits", False), "busy-silent": ("is silent", True)}
STRATEGIES = {
    **dict.fromkeys(BUSY, "least-busy"),
    "usage": "usage-based-routing-v2",
    "limited": "",
}
TEXT = "Hello there, friend " * 10
LONG = "You are a careful assistant. " * 60


def config(urls: list[str]) -> dict[str, Any]:
    """A model for each strategy, all of them on both backends."""
    made = make_config([Route(name, "tiny", url) for name in ("tiny", *STRATEGIES) for url in urls])
    for at, row in enumerate(made["model_list"]):
        if row["model_name"] == "tiny":
            row["litellm_params"]["weight"] = (3, 1)[at % 2]
        if row["model_name"] == "limited":
            row["litellm_params"]["rpm"] = (4, 1000)[at % 2]
    made["router_settings"]["routing_groups"] = [
        {
            "group_name": f"{name} ones",
            "models": [name],
            "routing_strategy": strategy or "usage-based-routing-v2",
        }
        for name, strategy in STRATEGIES.items()
    ]
    return made


@pytest.fixture(scope="module")
def backends() -> Iterator[Backends]:
    scripts = {
        "hi": Script((TEXT,)),
        "waits": Script((TEXT,), hang_after=1),
        "is silent": Script((TEXT,), hang_after=0),
    }
    with backends_of(2, scripts) as made:
        yield made


@pytest.fixture(
    scope="module",
    params=["auto", "litellm"],
    ids=["own route", "LiteLLM's way"],
)
def url(
    request: pytest.FixtureRequest,
    backends: Backends,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("routing")
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config([each.url for each in backends.all])))
    url = backends.all[0].url
    arguments = ["--config", str(path)]
    with serving(arguments, url, folder / "log", TOOLGATE_ROUTE=request.param) as gateway:
        yield gateway.url


@pytest.fixture
def own_route(request: pytest.FixtureRequest) -> bool:
    return "LiteLLM's way" not in request.node.name


@pytest.fixture
async def http(url: str, backends: Backends) -> AsyncIterator[httpx.AsyncClient]:
    for backend in backends.all:
        backend.requests.clear()
    headers = bearer(MASTER_KEY)
    async with http_client(url, headers=headers, timeout=60) as client:
        yield client


def asked(model: str, script: str = "hi", system: str = LONG, **params: Any) -> dict[str, Any]:
    system_message = {"role": "system", "content": system}
    messages = [system_message, {"role": "user", "content": script}]
    return {"model": model, "messages": messages, **params}


async def test_requests_follow_the_weights(http: httpx.AsyncClient, backends: Backends) -> None:
    with backends.counted() as used:
        for begin in range(0, 120, 24):
            bodies = [asked("tiny", system=f"{at} {LONG}") for at in range(begin, begin + 24)]
            said = await asyncio.gather(*(http.post(CHAT, json=body) for body in bodies))
            assert {response.status_code for response in said} == {200}
    assert 0.58 < used[0] / sum(used) < 0.92


@pytest.mark.parametrize("model", BUSY)
async def test_least_busy_goes_to_the_idle_backend(
    http: httpx.AsyncClient, backends: Backends, own_route: bool, model: str
) -> None:
    """Prompts too short to prefer any. A request that its client left is counted no longer, on our
    own route; LiteLLM goes on counting those."""
    script, stream = BUSY[model]
    body = asked(model, script, system="", stream=stream)
    first: list[asyncio.Task[httpx.Response]] = []
    with backends.counted() as used:
        for number in range(6):
            first.append(asyncio.create_task(http.post(CHAT, json=body)))
            await backends.under_way(number + 1)
    assert used == [3, 3]
    if not own_route:
        await _end(first, backends)
        return
    first.pop().cancel()
    await backends.under_way(5)
    await asyncio.sleep(0.2)  # until the gateway knows
    with backends.counted() as used:
        for _ in range(4):
            asking = asyncio.create_task(http.post(CHAT, json=body))
            await backends.under_way(6)
            asking.cancel()
            await backends.under_way(5)
            await asyncio.sleep(0.2)
    assert sorted(used) == [0, 4]
    await _end(first, backends)


async def _end(requests: list[asyncio.Task[httpx.Response]], backends: Backends) -> None:
    for each in requests:
        each.cancel()
    await backends.under_way(0)


async def test_requests_with_one_cache_key_go_to_one_backend(
    http: httpx.AsyncClient, backends: Backends
) -> None:
    """Short prompts, which have no preference otherwise."""
    body = asked("tiny", system="", prompt_cache_key="mine")
    with backends.counted() as used:
        for _ in range(40):
            response = await http.post(CHAT, json=body)
            assert response.status_code == 200, response.text
    assert 0 in used


async def test_usage_based_routing_spreads_requests(
    http: httpx.AsyncClient, backends: Backends
) -> None:
    with backends.counted() as used:
        for _ in range(20):
            response = await http.post(CHAT, json=asked("usage", system=""))
            assert response.status_code == 200
            await asyncio.sleep(0.05)  # LiteLLM adds up usage after the answer
    assert min(used) >= 8


@pytest.mark.parametrize("model", ["tiny", *STRATEGIES])
async def test_every_strategy_serves_a_burst_with_one_prefix(
    http: httpx.AsyncClient, backends: Backends, own_route: bool, model: str
) -> None:
    """One long prefix, many at once: neither its preference nor the limit of one deployment's
    keeps a request from another. On LiteLLM's route, its router from 1.110 on refuses requests of
    a burst that it has chosen a full deployment for."""
    refuses = (
        model == "limited" and not own_route and Version(version("litellm")) >= Version("1.110")
    )
    with backends.counted() as used:
        said = await asyncio.gather(*(http.post(CHAT, json=asked(model)) for _ in range(12)))
        served = [response.status_code for response in said].count(200)
        assert {response.status_code for response in said} <= {200, *([429] if refuses else [])}
        for _ in range(4):
            response = await http.post(CHAT, json=asked(model))
            assert response.status_code == 200, response.text
    assert sum(used) == served + 4
