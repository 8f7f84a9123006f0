"""Clients that leave a loop of calls: at each of its stages, the tool and the sampling end, and
nothing stays behind."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import psutil
import pytest
from litellm.proxy import proxy_server
from litellm.responses.mcp.litellm_proxy_mcp_handler import LiteLLM_Proxy_MCP_Handler as Handler

from tests.support.litellm.mcp import LOOKUP, ran
from tests.support.litellm.own_route import PATHS, Gateway, body_of
from tests.support.servers import mcp_shop
from tests.support.servers.script import Script, call
from tests.support.servers.virtual_keys import key_of
from tests.support.waiting import until
from toolgate_proxy import background
from toolgate_proxy.keys.key import new_key
from toolgate_proxy.server.request_scope import RequestScope

URL = "litellm_proxy/mcp/shop"
ENTRY = {"type": "mcp", "server_label": "shop", "server_url": URL, "require_approval": "never"}
BODIES = {
    "chat": body_of("chat", "go", tools=[ENTRY]),
    "responses": body_of("responses", "go", tools=[ENTRY]),
    "messages": body_of(
        "messages",
        "go",
        mcp_servers=[{"type": "url", "name": "shop", "url": URL}],
        tools=[{"type": "mcp_toolset", "mcp_server_name": "shop"}],
    ),
}
SEARCHES = {
    "responses": body_of("responses", "go", tools=[{"type": "web_search"}]),
    "messages": body_of(
        "messages", "go", tools=[{"type": "web_search_20250305", "name": "web_search"}]
    ),
}
CALL = call(LOOKUP, {"id": 7})
STAGES = ("listing", "sampling", "call", "result", "second sampling")


def servers() -> list[psutil.Process]:
    """The processes of the MCP server."""
    found = []
    for process in psutil.Process(os.getpid()).children(recursive=True):
        try:
            if mcp_shop.__file__ in process.cmdline():
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


class Hanging:
    """What never answers."""

    def __init__(self) -> None:
        self.begun, self.ended = asyncio.Event(), asyncio.Event()

    async def __call__(self, *_: object, **__: object) -> Any:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


async def abandon(gateway: Gateway, api: str, body: dict[str, Any], left: asyncio.Event) -> None:
    """Ask, and leave at the event. Nothing stays behind."""
    gateway._app = RequestScope(gateway._app)  # type: ignore[assignment]
    sent = new_key()
    key = key_of(sent, mcp_servers=("shop",), max_parallel_requests=1, tool_calls_per_day=9)
    gateway.add_key(sent, key)
    await gateway.ask(body, path=PATHS[api], key=sent, leave_after=left)
    assert left.is_set()
    assert await gateway.backend.idle_within(5)
    await until(lambda: not servers())
    await until(lambda: not (gateway.here.limiter.reservations.in_flight or background._tasks))


@pytest.mark.parametrize("api", BODIES)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("stage", STAGES)
async def test_a_client_that_leaves_ends_the_loop(
    gateway: Gateway,
    calls: Path,
    monkeypatch: pytest.MonkeyPatch,
    stage: str,
    stream: bool,
    api: str,
) -> None:
    backend, listing = gateway.backend, Hanging()
    left = listing.begun

    def parsed(_result: object) -> str:
        left.set()
        return "Found."

    async def reached(what: str) -> None:
        if what == "call":
            await until(lambda: bool(ran(calls)))
        else:
            rounds = 1 if what == "sampling" else 2
            await until(lambda: len(backend.requests) >= rounds and backend.running > 0)
        left.set()

    hangs = Script(("It is record",), hang_after=2)
    backend.turns = [Script((CALL,)), hangs]
    watched: asyncio.Task[None] | None = None
    match stage:
        case "listing":
            # It has an underscore before 1.106.
            name = "process_mcp_tools_without_openai_transform"
            monkeypatch.setattr(Handler, name, listing, raising=False)
        case "sampling":
            backend.turns = [hangs]
        case "call":
            backend.turns = [Script((call(LOOKUP, {"id": mcp_shop.HANGS}),))]
        case "result":  # LiteLLM's hooks after the call
            monkeypatch.setattr(Handler, "_parse_mcp_result", parsed)
    if stage not in ("listing", "result"):
        watched = asyncio.create_task(reached(stage))
    await abandon(gateway, api, {**BODIES[api], "stream": stream}, left)
    if watched is not None:
        await watched
    if stage == "listing":
        assert listing.ended.is_set()
        assert backend.requests == []
    assert len(backend.requests) == {"listing": 0, "sampling": 1, "call": 1}.get(
        stage, len(backend.requests)
    )


@pytest.mark.parametrize("api", SEARCHES)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_ends_a_web_search(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, stream: bool, api: str
) -> None:
    search, router = Hanging(), proxy_server.llm_router
    router.search_tools = [{"search_tool_name": "s", "litellm_params": {}}]
    monkeypatch.setattr(router, "asearch", search)
    gateway.backend.turns = [Script((call("web_search", {"query": "news"}),))]
    await abandon(gateway, api, {**SEARCHES[api], "stream": stream}, search.begun)
    assert search.ended.is_set()
    assert len(gateway.backend.requests) == 1
