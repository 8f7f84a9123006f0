"""One backend of several processes: data-parallel engines, also on a second node, several API
processes on one port, and one model on two nodes. Each API process has a registry of its own,
and a request may reach any.

The second node is a process on the same machine. So these tests show neither a slow network nor a
machine that loses power: to the head, that is the same as a stopped process. On CPUs, vLLM has
no Ray executor, and a pipeline's second stage only works with compilation, which these servers
leave out.
"""

import asyncio
import json
import operator
import os
import signal
import uuid
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from threading import Event

import jsonschema
import psutil
import pytest

from tests import tools
from tests.models import tiny_model
from tests.support.effort import repeats
from tests.support.servers import gateway_process
from tests.support.servers.gateway_process import MASTER_KEY
from tests.support.servers.http_client import http_client
from tests.support.waiting import until
from toolgate_proxy.ops.stack.processes import Child, free_port

from .kit import CHAT, LIGHT, StreamRead, metric, read
from .servers import PLACES, STOP_SECONDS, Backend, adapters, await_backend, vllm

pytestmark = pytest.mark.slow

REQUESTS, AT_ONCE = repeats(40, nightly=200), 16
TWO_ENGINES = ("--data-parallel-size", "2")
LOST_SECONDS = 60
"""Ample: an engine counts as lost after 10 seconds. An RPC would wait for 60 seconds."""
ONE_MODEL = ("--master-addr", "127.0.0.1", "--master-port", "{free_port}", "--nnodes", "2")
TWO_NODES = (
    *("--data-parallel-size-local", "1"),
    *("--data-parallel-address", "127.0.0.1", "--data-parallel-rpc-port", "{free_port}"),
)
SERVERS = {
    "two_engines": (adapters()[0], TWO_ENGINES),
    "two_engines_second_adapter": (adapters()[-1], (*TWO_ENGINES, "--api-server-count", "1")),
    "two_api_processes": (adapters()[0], ("--api-server-count", "2")),
    "two_nodes": (adapters()[0], (*TWO_ENGINES, *TWO_NODES)),
    "one_model_on_two_nodes": (adapters()[0], ("--tensor-parallel-size", "2", *ONE_MODEL)),
}
"""The adapter and the flags of each backend. By default, it has an API process for each engine."""
SECOND_NODES = {
    "two_nodes": ("--headless", "--data-parallel-start-rank", "1"),
    "one_model_on_two_nodes": ("--headless", "--node-rank", "1"),
}
"""The further flags of a backend's second node."""


def with_two_engines(*more):
    """If the only engine of a server dies, the server ends (test_faults.py)."""
    names = ["two_engines", "two_engines_second_adapter", "two_nodes", *more]
    return pytest.mark.parametrize("parallel", names, indirect=True, scope="module")


@dataclass
class Parallel:
    """A backend of several processes, and the gateway before it."""

    name: str
    backend: Backend
    gateway: gateway_process.Gateway
    nodes: list[Child] = field(default_factory=list)

    def engine(self, number):
        nodes = [psutil.Process(node.pid) for node in self.nodes]
        family = [each for node in nodes for each in node.children(recursive=True)]
        [found] = [each for each in family if f"EngineCore_DP{number}" in each.name()]
        return found


@pytest.fixture(scope="module", params=SERVERS)
def parallel(request, tmp_path_factory):
    name, logs = request.param, tmp_path_factory.mktemp(request.param)
    adapter, flags = SERVERS[name]
    key, port = uuid.uuid4().hex, free_port()
    rendezvous = free_port()
    flags = tuple(each.format(free_port=rendezvous) for each in flags)
    flags = ("--served-model-name", "tiny", "--max-num-seqs", str(PLACES), *flags)
    gateway_process.preload()
    with ExitStack() as held:

        def start(node, port, *more):
            child = vllm(node, tiny_model(), port, key, adapter, (*flags, *more), logs)
            held.callback(child.stop)
            return child

        nodes = [start("head", port)]
        if name in SECOND_NODES:
            nodes.append(start("second_node", free_port(), *SECOND_NODES[name]))
        url = f"http://127.0.0.1:{port}"
        backend = Backend(url, key, nodes[0].pid)
        await_backend(nodes[0], url, key, Event())
        gateway = held.enter_context(
            gateway_process.serving(
                ["--model", "tiny"], url, logs / "gateway.log", TOOLGATE_BACKEND_KEY=key
            )
        )
        yield Parallel(name, backend, gateway, nodes)


@pytest.fixture
async def http(parallel):
    async with http_client(parallel.gateway.url, MASTER_KEY, timeout=300) as client:
        yield client


# --- each request has all that any process needs ---


def new_tool(name=""):
    properties = LIGHT["function"]["parameters"]["properties"]
    return tools.tool(name or f"tool_{uuid.uuid4().hex}", properties)


KNOWN = [new_tool(f"known_{at}") for at in range(10)]


async def call(http, tool, **more):
    """Require a valid call of the tool."""
    request = {"model": "tiny", "messages": [{"role": "user", "content": "Go."}], "max_tokens": 200}
    request |= {"tools": [tool], "tool_choice": "required", "parallel_tool_calls": False, **more}
    told = StreamRead()
    if request.get("stream"):
        await read(http, request, told)
        assert (told.error, told.done) == (None, True)
        arguments = told.arguments
    else:
        response = await http.post(CHAT, json={**request, "reasoning_effort": "none"})
        assert response.status_code == 200, response.text
        [made] = response.json()["choices"][0]["message"]["tool_calls"]
        arguments = made["function"]["arguments"]
    jsonschema.validate(json.loads(arguments), tool["function"]["parameters"])


POSTS = 'http_requests_total{handler="/v1/toolgate/generate"'
"""Requests for tokens that a backend has received. Those of health checks are messages, too."""


@pytest.mark.parametrize("kind", ["new", "known"])
async def test_requests_with_tools_succeed_with_one_send_each(http, parallel, kind):
    if kind == "known":
        await asyncio.gather(*(call(http, tool) for tool in KNOWN))
    places = asyncio.Semaphore(AT_ONCE)
    with parallel.backend.client() as client:
        before = metric(client, POSTS)

    async def one(at):
        async with places:
            tool = new_tool() if kind == "new" else KNOWN[at % len(KNOWN)]
            await call(http, tool, stream=at % 2 == 1, reasoning_effort="none")

    await asyncio.gather(*(one(at) for at in range(REQUESTS)))
    with parallel.backend.client() as client:
        assert metric(client, POSTS) - before == REQUESTS


# --- an engine that does not respond ---

ENDLESS = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "Go on and on."}],
    "max_tokens": 6000,
    "ignore_eos": True,
    "reasoning_effort": "none",
}


async def begun(http):
    """Return streams that have begun, several on each engine."""
    streams = []
    for _ in range(8):
        told = StreamRead()
        streams.append((told, asyncio.create_task(read(http, ENDLESS, told))))
    await until(lambda: all(told.content for told, _ in streams), LOST_SECONDS)
    return streams


async def until_ended(streams):
    """Wait until a stream has ended with the error of a failed backend."""
    await until(lambda: any(told.error for told, _ in streams), LOST_SECONDS)


async def require_unready(http, backend):
    """Each API process finds out for itself, and a connection may be with any."""
    unready = partial(until, seconds=LOST_SECONDS, holds=lambda answer: answer.status_code == 503)
    async with http_client(backend.url, backend.key, timeout=LOST_SECONDS) as direct:
        for path in ("/health", "/v1/toolgate/info", "/v1/toolgate/status"):
            answer = await unready(partial(direct.get, path))
            assert answer.json()["error"]["message"].startswith("Engine 1 of this model's backend")
    refused = await unready(partial(http.post, CHAT, json=ENDLESS))
    assert refused.json()["error"]["code"] == "backend_unavailable"
    assert int(refused.headers["retry-after"]) > 0


async def some_fail(http):
    short = {**ENDLESS, "max_tokens": 3}
    answers = await asyncio.gather(*(http.post(CHAT, json=short) for _ in range(AT_ONCE)))
    return any(answer.is_error for answer in answers)


@with_two_engines()
async def test_a_stopped_engine_makes_the_backend_unready_until_it_runs_again(http, parallel):
    streams = await begun(http)
    stopped = parallel.engine(1)
    stopped.send_signal(signal.SIGSTOP)
    try:
        waiting = asyncio.create_task(http.post(CHAT, json={**ENDLESS, "tools": [new_tool()]}))
        await until_ended(streams)
        await require_unready(http, parallel.backend)
        refused = await waiting
        assert (refused.status_code, refused.json()["error"]["code"]) == (
            503,
            "backend_unavailable",
        )
        ended = [told for told, _ in streams if told.error]
        assert {told.error["code"] for told in ended if told.error} == {"backend_failed"}
        assert not any(told.done or told.finish for told in ended)
        assert len(ended) < len(streams)
    finally:
        stopped.send_signal(signal.SIGCONT)
        for _, task in streams:
            task.cancel()
    # Each API process finds out for itself.
    await until(lambda: some_fail(http), LOST_SECONDS, operator.not_)
    await asyncio.gather(*(call(http, new_tool()) for _ in range(AT_ONCE)))


@with_two_engines("one_model_on_two_nodes")
async def test_requests_end_when_an_engine_or_a_node_of_its_ranks_is_killed(http, parallel):
    """The server of the engine ends with it. Only the engine of a second node is no part of the
    head's server, which becomes unready."""
    streams = await begun(http)
    ends = parallel.nodes[-1]
    if parallel.name == "one_model_on_two_nodes":
        os.killpg(ends.pid, signal.SIGKILL)
        ends = parallel.nodes[0]
    else:
        parallel.engine(1).kill()
    await until_ended(streams)
    codes = {told.error["code"] for told, _ in streams if told.error}
    assert codes == {"backend_failed"}
    if parallel.name == "two_nodes":
        await require_unready(http, parallel.backend)
        assert any(not told.error for told, _ in streams)
    for _, task in streams:
        task.cancel()
    assert await asyncio.to_thread(psutil.Process(ends.pid).wait, STOP_SECONDS) != 0
