"""Clients that leave: whatever a request waits for at that moment, its place is free again, only
what a backend has read and generated counts, a tool that runs ends, and nothing stays behind."""

import asyncio
import os
from itertools import product

import psutil
import pytest
from litellm.proxy import proxy_server
from litellm.responses.mcp.litellm_proxy_mcp_handler import LiteLLM_Proxy_MCP_Handler as Handler
from pydantic import SecretStr

from tests.proxy.server.kit import STREAM
from tests.support.effort import rotating, sampled
from tests.support.litellm.mcp import LOOKUP, ran
from tests.support.litellm.own_route import PATHS, body_of, chat
from tests.support.servers import mcp_shop
from tests.support.servers.script import Script, call
from tests.support.servers.virtual_keys import key_of
from tests.support.waiting import until
from toolgate_proxy import background
from toolgate_proxy.keys.key import new_key
from toolgate_proxy.keys.limit_kinds import Tokens
from toolgate_proxy.limits.limiter import Limiter
from toolgate_proxy.litellm_host.routing.router import router_settings
from toolgate_proxy.server import request_scope
from toolgate_proxy.server.request_scope import RequestScope
from toolgate_proxy.settings import Settings

LIMIT, MAX_TOKENS = 100_000, 30_000
PROMPT, GENERATED = 11, 5
"""Tokens of the scripted response."""


class Interrupted:
    """Awaits `work`, and cancels its task when it suspends for the `at`-th time, after `delay`
    iterations of the event loop, in which what it waits for goes on."""

    def __init__(self, work, at, delay):
        self._work = work
        self._at = at
        self._delay = delay
        self.suspended = 0

    def __await__(self):
        waited = self._work.__await__()
        sent = None
        error = None
        while True:
            try:
                future = waited.send(sent) if error is None else waited.throw(error)
            except StopIteration as ended:
                return ended.value
            self.suspended += 1
            if self.suspended == self._at:
                task = asyncio.current_task()
                assert task is not None
                _cancel(task, self._delay)
            sent = error = None
            try:
                sent = yield future
            except BaseException as raised:  # noqa: BLE001  handed on to the work
                error = raised


def _cancel(task, delay):
    if delay:
        asyncio.get_running_loop().call_soon(_cancel, task, delay - 1)
    else:
        task.cancel()


@pytest.fixture(params=["memory", "redis"])
async def limiter(request, gateway, monkeypatch):
    """The limiter of the gateway, whose requests are settled as in a process."""
    redis = None
    if request.param == "redis":
        redis = request.getfixturevalue("redis_at_hand")
    url = SecretStr(redis.url) if redis else None
    limiter = Limiter(Settings(redis_url=url))
    await limiter.started()
    gateway.here.limiter = limiter
    monkeypatch.setattr(request_scope, "gateway", lambda: gateway.here)
    gateway._app = RequestScope(gateway._app)
    yield limiter
    await limiter.aclose()


async def counted(limiter, key):
    """Tokens of the minute, tokens of the day and requests in flight that count for a key."""
    await until(lambda: not (limiter.leases._held or background._tasks))
    probe = await limiter.admit(key, "probe", Tokens(), Tokens)
    await probe.settle()
    left = (probe.headers[f"x-ratelimit-remaining-{name}"] for name in
            ("tokens", "tokens-day", "parallel-requests"))  # fmt: skip
    minute, day, parallel = map(int, left)
    return LIMIT - minute, LIMIT - day, 8 - parallel - 1


@rotating("delay, stream", product([0, 1, 2, 4, 8, 16], [False, True]), one_in=6)
async def test_a_request_that_is_cancelled_at_any_await_counts_only_what_was_generated(
    gateway, limiter, stream, delay
):
    seen = set()
    for at in range(1, 1000):
        sent = new_key()
        key = key_of(sent, tpm=LIMIT, tokens_per_day=LIMIT, max_parallel_requests=8)
        gateway.add_key(sent, key)
        gateway.backend.requests.clear()
        body = chat(stream=stream, max_tokens=MAX_TOKENS)
        work = Interrupted(gateway.ask(body, key=sent), at, delay)
        task = asyncio.create_task(_awaited(work))
        (ended,) = (await asyncio.wait({task}, timeout=20))[0]
        minute, day, in_flight = await counted(limiter, key)
        assert in_flight == 0, f"suspension {at} keeps the place"
        assert minute == day
        assert day == 0 or PROMPT <= day <= PROMPT + GENERATED, f"suspension {at}"
        if not gateway.backend.requests:
            assert day == 0, f"suspension {at}: no backend has read the prompt"
        seen.add(day)
        if not ended.cancelled():
            break
    assert day == PROMPT + GENERATED, "what was sent whole counts"
    assert delay or work.suspended < at
    assert 0 in seen


async def _awaited(work):
    return await work


@STREAM
async def test_a_client_that_leaves_is_charged_for_what_was_generated_until_then(
    gateway, limiter, stream
):
    gateway.backend.scripts["slow"] = Script(("word " * 100,), pause=0.05)
    sent = new_key()
    key = key_of(sent, tpm=LIMIT, tokens_per_day=LIMIT, max_parallel_requests=8)
    gateway.add_key(sent, key)
    body = chat("slow", stream=stream, max_tokens=MAX_TOKENS)
    await gateway.ask(body, key=sent, leave_after=1.0)
    minute, day, in_flight = await counted(limiter, key)
    assert in_flight == 0
    assert minute == day
    assert PROMPT < day < PROMPT + 100


URL = "litellm_proxy/mcp/shop"
ENTRY = {"type": "mcp", "server_label": "shop", "server_url": URL, "require_approval": "never"}
SERVER = {"type": "url", "name": "shop", "url": URL}
LOOPS = {
    "chat": {"tools": [ENTRY]},
    "responses": {"tools": [ENTRY]},
    "messages": {
        "mcp_servers": [SERVER],
        "tools": [{"type": "mcp_toolset", "mcp_server_name": "shop"}],
    },
}
SEARCHES = {
    "responses": {"type": "web_search"},
    "messages": {"type": "web_search_20250305", "name": "web_search"},
}
STAGES = ("listing", "sampling", "call", "result", "second sampling")


def servers():
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

    def __init__(self):
        self.begun, self.ended = asyncio.Event(), asyncio.Event()

    async def __call__(self, *_, **__):
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


async def abandon(gateway, api, body, left):
    """Ask, and leave at the event. Nothing stays behind."""
    gateway._app = RequestScope(gateway._app)
    sent = new_key()
    key = key_of(sent, mcp_servers=("shop",), max_parallel_requests=1, tool_calls_per_day=9)
    gateway.add_key(sent, key)
    asked = body_of(api, "go", **body)
    await gateway.ask(asked, path=PATHS[api], key=sent, leave_after=left)
    assert left.is_set()
    assert await gateway.backend.idle_within(5)
    await until(lambda: not servers())
    await until(lambda: not (gateway.here.limiter.leases.in_flight or background._tasks))


WAYS = [(api, stream) for api in LOOPS for stream in (False, True)]


@sampled("stage, way", STAGES, WAYS, one_in=5)
async def test_a_client_that_leaves_ends_the_loop(gateway, calls, monkeypatch, stage, way):
    (api, stream), backend, listing = way, gateway.backend, Hanging()
    left = listing.begun

    def parsed(_result):
        left.set()
        return "Found."

    async def reached():
        if stage == "call":
            await until(lambda: bool(ran(calls)))
        else:
            rounds = 1 if stage == "sampling" else 2
            await until(lambda: len(backend.requests) >= rounds and backend.running > 0)
        left.set()

    hangs = Script(("It is record",), hang_after=2)
    backend.turns = [Script((call(LOOKUP, {"id": 7}),)), hangs]
    watched = None
    match stage:
        case "listing":
            monkeypatch.setattr(Handler, "process_mcp_tools_without_openai_transform", listing)
        case "sampling":
            backend.turns = [hangs]
        case "call":
            backend.turns = [Script((call(LOOKUP, {"id": mcp_shop.HANGS}),))]
        case "result":  # LiteLLM's hooks after the call
            monkeypatch.setattr(Handler, "_parse_mcp_result", parsed)
    if stage not in ("listing", "result"):
        watched = asyncio.create_task(reached())
    await abandon(gateway, api, {**LOOPS[api], "stream": stream}, left)
    if watched is not None:
        await watched
    assert listing.ended.is_set() is (stage == "listing")
    rounds = {"listing": 0, "sampling": 1, "call": 1}
    assert len(backend.requests) == rounds.get(stage, len(backend.requests))


@STREAM
@pytest.mark.parametrize("api", SEARCHES)
async def test_a_client_that_leaves_ends_a_web_search(gateway, monkeypatch, stream, api):
    search, router = Hanging(), proxy_server.llm_router
    router_settings().search_tools[:] = [{"search_tool_name": "s", "litellm_params": {}}]
    monkeypatch.setattr(router, "asearch", search)
    gateway.backend.turns = [Script((call("web_search", {"query": "news"}),))]
    body = {"tools": [SEARCHES[api]], "stream": stream}
    await abandon(gateway, api, body, search.begun)
    assert search.ended.is_set()
    assert len(gateway.backend.requests) == 1
