"""Real routers between a gateway and two replicas, with the configuration of docs/guide/scaling.md.

Each request is sent once, whichever replica gets it, and nothing of it is changed or held back.
"""

import asyncio
import itertools
from contextlib import ExitStack
from functools import cache
from typing import NamedTuple

import httpx
import pytest
import yaml

from tests.proxy.process.kit import CHAT
from tests.support.apis.replies import read
from tests.support.effort import repeats, rotating
from tests.support.servers.backends import Backends, backends_of
from tests.support.servers.fake_backend import KEY
from tests.support.servers.gateway_process import MASTER_KEY, serving
from tests.support.servers.http_client import http_client
from tests.support.servers.routers import routing
from tests.support.servers.script import Script, call
from tests.support.waiting import until
from toolgate_core import wire
from toolgate_proxy.backend_client import client
from toolgate_proxy.ops.stack.processes import free_port
from toolgate_proxy.server.launcher import Route, make_config
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
OTHERS = [name for name in ROUTERS if name not in SESSIONS]
NUMBERS = itertools.count()
AT_ONCE = 16
REQUESTS = repeats(60, nightly=1000)
TEXT = "Hello there, friend. " * 10
REFUSED = {"message": "Full.", "code": "backend_unavailable"}
SCRIPTS = {
    "waits": Script((TEXT,), hang_after=1),
    "minutes": Script(("Hello",), pause=25.0),
    "full": Script(("",), error_status=503, error=REFUSED),
}


class Caller:
    """Calls the first tool of each request that has no script."""

    def tokens(self, prompt):
        return 1

    def answer(self, message):
        assert isinstance(message.prompt, wire.ChatPrompt)
        said = str(message.prompt.messages[-1]["content"])
        if said in SCRIPTS:
            return SCRIPTS[said]
        assert message.enforcement is not None
        [tool] = message.enforcement.candidates
        text = call(tool.name, {"city": "Rome"})
        return Script((text,), pause=0.01 if said == "call slowly" else 0.0)


class Routed(NamedTuple):
    model: str
    backends: Backends
    http: httpx.AsyncClient

    async def post(self, body):
        return await self.http.post(CHAT, json={"model": self.model} | body)


@pytest.fixture(scope="module")
def ports():
    return {name: free_port() for name in ROUTERS}


@pytest.fixture(scope="module")
def gateway_url(ports, tmp_path_factory):
    """A gateway with a model for each router."""
    urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
    config = make_config([Route(name, "tiny", url) for name, url in urls.items()])
    folder = tmp_path_factory.mktemp("gateway")
    (path := folder / "config.yaml").write_text(yaml.safe_dump(config))
    with serving(["--config", str(path)], urls["nginx"], folder / "log") as gateway:
        yield gateway.url


@pytest.fixture(scope="module")
def routed_by(ports, tmp_path_factory):
    """Start a router and its two replicas at the first call."""
    with ExitStack() as stack:

        @cache
        def started(name):
            backends = stack.enter_context(backends_of(2, {}))
            for each in backends.all:
                each.model = Caller()
            program, replaced = ROUTERS[name]
            folder = tmp_path_factory.mktemp(name)
            urls = [each.url for each in backends.all]
            stack.enter_context(routing(program, ports[name], urls, folder, replaced))
            return backends

        yield started


@pytest.fixture(params=OTHERS)
async def routed(request, routed_by, gateway_url):
    backends = routed_by(request.param)
    async with http_client(gateway_url, MASTER_KEY, timeout=120) as http:
        made = Routed(request.param, backends, http)
        await wait_until_up(made)
        yield made


async def wait_until_up(routed):
    """Wait until the gateway has found that the router responds."""

    async def is_up():
        models = (await routed.http.get("/toolgate/status")).json()["models"]
        [model] = [each for each in models if each["model"] == routed.model]
        return all(backend["up"] for backend in model["backends"])

    await until(is_up, 60)


def saying(*texts, **more):
    """A body with these messages. The last one is the name of a script."""
    return {"messages": [{"role": "user", "content": text} for text in texts], **more}


def calling(tool, *texts, **more):
    """A body with a tool that must be called."""
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    function = {"name": tool, "description": "The weather.", "parameters": schema}
    tools = [{"type": "function", "function": function}]
    return saying(*(texts or ["call"]), tools=tools, tool_choice="required", **more)


async def calls(routed, tool, *texts, **more):
    """Send a request. Its response must call this tool, and be complete."""
    response = await routed.post(calling(tool, *texts, **more))
    assert response.status_code == 200, response.text
    [reply] = read(Api.CHAT, response.content, streamed=more.get("stream", False))
    assert [(each.name, each.arguments) for each in reply.answer.calls] == [
        (tool, '{"city": "Rome"}')
    ]


async def all_at_once(number, send):
    """Call `send` with each number below `number`, so many at once as AT_ONCE."""
    left = iter(range(number))

    async def each():
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
    assert min(used) > 0


async def test_key_and_session_reach_the_engine(routed):
    for each in routed.backends.all:
        each.headers.clear()
    with routed.backends.counted() as used:
        for at in range(4):
            await calls(routed, "known", stream=at % 2 == 0)
    assert sum(used) == 4
    headers = [each for backend in routed.backends.all for each in backend.headers]
    assert {each["authorization"] for each in headers} == {f"Bearer {KEY}"}
    [session] = {each["x-session-id"] for each in headers}
    assert session


async def test_refusals_reach_the_client_unchanged(routed):
    refused = f"refused_{next(NUMBERS)}"
    for stream in (True, False):
        response = await routed.post(calling(refused, stream=stream))
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == (400, "schema_not_enforceable")
        assert error["param"] == "tools[0].function.parameters"


async def test_a_busy_engine_is_a_503(routed):
    for stream in (True, False):
        response = await routed.post(saying("full", stream=stream))
        assert response.status_code == 503, response.text
        assert response.json()["error"]["code"] == "backend_unavailable"
        assert int(response.headers["retry-after"]) > 0


@rotating("routed", OTHERS, one_in=3, indirect=True)
async def test_a_large_request_passes(routed):
    """A body near the gateway's bound."""
    with routed.backends.counted() as used:
        await calls(routed, "known", "a" * 20_000_000)
    assert sum(used) == 1


async def test_first_events_arrive_while_the_engine_goes_on(routed):
    """The engine sends one token and then nothing but keep-alives, until the client leaves."""
    body = saying("waits", stream=True, model=routed.model)
    async with routed.http.stream("POST", CHAT, json=body) as response:
        async for line in response.aiter_lines():
            if '"content":"Hel"' in line:
                break
        assert sum(each.running for each in routed.backends.all) == 1
    await routed.backends.under_way(0)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_request_ends_at_the_engine_when_its_client_leaves(routed, stream):
    asking = asyncio.create_task(routed.post(saying("waits", stream=stream)))
    await routed.backends.under_way(1)
    await asyncio.sleep(0.2)
    asking.cancel()
    await routed.backends.under_way(0)


@pytest.mark.parametrize("routed", SESSIONS, indirect=True)
async def test_turns_of_a_conversation_go_to_one_replica(routed):
    places = set[int]()
    for number in range(24):
        messages, turns = saying(f"Conversation {number}")["messages"], set[int]()
        for _ in range(3):
            with routed.backends.counted() as used:
                await routed.post(calling("known") | {"messages": messages})
            turns.add(used.index(1))
            messages += [{"role": "assistant", "content": "Yes."}, *saying("And?")["messages"]]
        assert len(turns) == 1
        places |= turns
    assert places == {0, 1}


class Outcome(NamedTuple):
    begun: bool
    """Whether the client got a part of the stream."""
    error: str | None
    stream: bool


async def streamed(routed, body, begun):
    """Send a request whose response is streamed. `begun` grows when its first part arrives."""
    shown, ended = False, False
    body |= {"stream": True, "model": routed.model}
    async with routed.http.stream("POST", CHAT, json=body) as response:
        async for line in response.aiter_lines():
            if "error" in line:
                return Outcome(shown, line, stream=True)
            ended = ended or line == "data: [DONE]"
            if not shown and line.startswith("data: "):
                shown = True
                begun.append(True)
    return Outcome(shown, None if ended else "no end", stream=True)


async def whole(routed, body):
    response = await routed.post(body)
    return Outcome(False, None if response.status_code == 200 else response.text, stream=False)


@pytest.mark.slow
@pytest.mark.timed
@pytest.mark.parametrize("routed", ROUTERS, indirect=True)
async def test_a_killed_replica_cuts_only_streams_that_had_begun(routed, monkeypatch):
    """Streams run, and requests are sent 16 at a time, while one of two replicas dies."""
    held = Script((TEXT,), hang_after=1)
    monkeypatch.setitem(SCRIPTS, "held", held)
    began, ended = list[bool](), list[Outcome]()
    with routed.backends.counted() as used:
        held_streams = [
            asyncio.create_task(streamed(routed, saying(f"{at}", "held"), began))
            for at in range(AT_ONCE)
        ]
        await until(lambda: len(began) == AT_ONCE)

    async def send(at):
        if at == REQUESTS // 2:
            routed.backends.kill(0)
        body = calling(f"new_{next(NUMBERS)}", f"{at}", "call slowly")
        ended.append(await (streamed(routed, body, began) if at % 2 else whole(routed, body)))

    await all_at_once(REQUESTS, send)
    held.hang_after = None
    cut = [each for each in await asyncio.gather(*held_streams) if each.error]
    assert len(cut) == used[0]
    failed = [each for each in ended if each.error]
    assert [each for each in failed if not each.begun] == []
    assert len(failed) <= AT_ONCE
    routed.backends.start(0)
    await until_both_are_used(routed)


async def until_both_are_used(routed):
    """Wait until the router has found the replica that is back."""
    # Connections to the other replica are used until they have been idle for some seconds.
    pause = client.KEEPALIVE_SECONDS + 1 if routed.model == "haproxy-tcp" else 0.2
    async with asyncio.timeout(60):
        used = [0, 0]
        while min(used) == 0:
            await asyncio.sleep(pause)
            with routed.backends.counted() as now:
                await all_at_once(AT_ONCE, lambda _: calls(routed, "known", f"{next(NUMBERS)}"))
            used = [some + more for some, more in zip(used, now, strict=True)]


@pytest.mark.slow
@pytest.mark.timed
async def test_a_whole_response_may_take_longer_than_default_timeouts(routed_by, gateway_url):
    """Those of routers are 15 and 60 seconds. All routers at once."""
    async with http_client(gateway_url, MASTER_KEY, timeout=120) as http:
        asked = [Routed(name, routed_by(name), http) for name in OTHERS]
        for each in asked:
            await wait_until_up(each)
        responses = await asyncio.gather(*(each.post(saying("minutes")) for each in asked))
    assert [each.status_code for each in responses] == [200] * len(OTHERS)
