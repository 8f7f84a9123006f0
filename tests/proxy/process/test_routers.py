"""Real routers between a gateway and two replicas, with the configuration of docs/guide/scaling.md.

Each request is sent once, whichever replica gets it, and nothing of it is changed or held back.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from functools import cache
from typing import Any, NamedTuple

import httpx
import pytest
import yaml

from tests.proxy.process.kit import CHAT
from tests.support.apis.replies import read
from tests.support.effort import repeats
from tests.support.servers.backends import Backends, backends_of
from tests.support.servers.fake_backend import KEY
from tests.support.servers.gateway_process import MASTER_KEY, serving
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.routers import routing
from tests.support.servers.script import Script, call
from tests.support.waiting import until
from toolgate_core import wire
from toolgate_proxy.server.launcher import Route, make_config
from toolgate_proxy.stack.processes import free_port
from toolgate_verify.terms import Api

ROUTERS = {
    "nginx": ("nginx", ()),
    "nginx-session": ("nginx", [("# by session: ", "")]),
    "haproxy": ("HAProxy", ()),
    "haproxy-session": ("HAProxy", [("roundrobin # by session: balance ", "")]),
    # Balances connections instead of requests, as a Service of Kubernetes does.
    "haproxy-tcp": ("HAProxy", [("mode http", "mode tcp")]),
    "envoy": ("Envoy", ()),
    "envoy-session": ("Envoy", [("ROUND_ROBIN # by session: ", "")]),
    "vllm-router": ("vllm-router", ()),
    "vllm-router-session": ("vllm-router", [("round_robin", "consistent_hash")]),
}
SESSIONS = [name for name in ROUTERS if name.endswith("-session")]
NUMBERS = itertools.count()
AT_ONCE = 16
REQUESTS = repeats(60, nightly=1000)
TEXT = "Hello there, friend. " * 10
REFUSED = {"message": "Full.", "code": "backend_unavailable"}
SCRIPTS = {
    "hi": Script(("Hello there",)),
    "waits": Script((TEXT,), hang_after=1),
    "slow": Script((TEXT,), pause=0.05),
    "full": Script(("",), error_status=503, error=REFUSED),
}


class Caller:
    """Calls the first tool of each request that has no script."""

    def tokens(self, prompt: wire.ChatPrompt) -> int:
        return 1

    def answer(self, message: wire.GenerateRequest) -> Script:
        assert isinstance(message.prompt, wire.ChatPrompt)
        said = str(message.prompt.messages[-1]["content"])
        if said in SCRIPTS or message.enforcement is None:
            return SCRIPTS.get(said, SCRIPTS["hi"])
        [tool] = message.enforcement.candidates
        return Script((call(tool.name, {"city": "Rome"}),))


class Routed(NamedTuple):
    model: str
    backends: Backends
    http: httpx.AsyncClient

    async def post(self, body: dict[str, Any]) -> httpx.Response:
        return await self.http.post(CHAT, json={"model": self.model} | body)


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    return {name: free_port() for name in ROUTERS}


@pytest.fixture(scope="module")
def gateway_url(
    ports: dict[str, int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A gateway with a model for each router."""
    urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
    config = make_config([Route(name, "tiny", url) for name, url in urls.items()])
    folder = tmp_path_factory.mktemp("gateway")
    (path := folder / "config.yaml").write_text(yaml.safe_dump(config))
    with serving(["--config", str(path)], urls["nginx"], folder / "log") as gateway:
        yield gateway.url


@pytest.fixture(scope="module")
def routed_by(
    ports: dict[str, int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Backends]]:
    """Start a router and its two replicas at the first call."""
    with ExitStack() as stack:

        @cache
        def started(name: str) -> Backends:
            backends = stack.enter_context(backends_of(2, {}))
            for each in backends.all:
                each.model = Caller()
            program, replaced = ROUTERS[name]
            folder = tmp_path_factory.mktemp(name)
            urls = [each.url for each in backends.all]
            stack.enter_context(routing(program, ports[name], urls, folder, replaced))
            return backends

        yield started


@pytest.fixture(params=ROUTERS)
async def routed(
    request: pytest.FixtureRequest, routed_by: Callable[[str], Backends], gateway_url: str
) -> AsyncIterator[Routed]:
    backends = routed_by(request.param)
    async with http_client(gateway_url, headers=bearer(MASTER_KEY), timeout=120) as http:
        made = Routed(request.param, backends, http)
        async with asyncio.timeout(60):
            while not await is_up(made):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        yield made


async def is_up(routed: Routed) -> bool:
    models = (await routed.http.get("/toolgate/status")).json()["models"]
    [model] = [each for each in models if each["model"] == routed.model]
    return all(backend["up"] for backend in model["backends"])


def body_of(tool: str, said: str = "call", **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    function = {"name": tool, "description": "The weather.", "parameters": schema}
    return {
        "messages": [{"role": "user", "content": said}],
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "required",
        **more,
    }


async def calls(routed: Routed, tool: str, **more: Any) -> None:
    """Send a request. Its response must call this tool, and be complete."""
    response = await routed.post(body_of(tool, **more))
    assert response.status_code == 200, response.text
    [reply] = read(Api.CHAT, response.content, streamed=more.get("stream", False))
    assert [(each.name, each.arguments) for each in reply.answer.calls] == [
        (tool, '{"city": "Rome"}')
    ]


async def all_at_once(number: int, send: Callable[[int], Any]) -> None:
    """Call `send` with each number below `number`, so many at once as AT_ONCE."""
    left = iter(range(number))

    async def each() -> None:
        for at in left:
            await send(at)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(each())


@pytest.mark.parametrize("tools", ["new", "known"])
async def test_each_request_is_sent_once(routed, tools):
    """Streamed and whole in turn."""
    known = [f"known_{at}" for at in range(10)]
    with routed.backends.counted() as used:
        await all_at_once(
            REQUESTS,
            lambda at: calls(
                routed,
                f"new_{next(NUMBERS)}" if tools == "new" else known[at % 10],
                stream=at % 2 == 0,
            ),
        )
    assert sum(used) == REQUESTS
    if routed.model not in SESSIONS:
        assert min(used) > 0
