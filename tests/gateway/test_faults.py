"""Clients that leave or read slowly, and backends that are full, hang or are killed.

These tests use vLLM's own processes. tests/proxy tests the gateway's part with scripted backends.
"""

import asyncio
import signal
import socket

import httpx
import psutil
import pytest

from tests import tools
from tests.support import waiting
from tests.support.effort import NIGHTLY
from tests.support.servers.http_client import http_client

from .kit import CHAT, GENERATED, StreamRead, both_adapters, metric, read, status
from .servers import FEW_PLACES, MAX_REQUESTS, PLACES

USER = [{"role": "user", "content": "Go on and on."}]
ENDLESS = {"model": "tiny", "messages": USER, "max_tokens": 6000}
CONTENT = {**ENDLESS, "ignore_eos": True, "reasoning_effort": "none"}
# Thousands of tokens: a call that is still being written when something happens to it.
FLAGS = {"type": "array", "items": {"type": "boolean"}, "minItems": 2500, "maxItems": 2500}
LONG = tools.tool("set_flags", {"flags": FLAGS})
CALL = {**ENDLESS, "tools": [LONG], "tool_choice": "required", "reasoning_effort": "none"}
REASONING = {**ENDLESS, "reasoning_effort": "high"}
ENGINE = "VLLM::EngineCore"


@pytest.fixture
async def http(impatient_gateway):
    async with http_client(impatient_gateway.url, impatient_gateway.key, timeout=120) as client:
        yield client


def running(backend):
    return int(backend.get("/status").json()["running"])


async def until(holds):
    await waiting.until(lambda: asyncio.to_thread(holds), 60)


def nothing_is_left(backend):
    if running(backend):
        return False
    left = status(backend)
    return (left.running, left.sequences, left.pinned_grammars) == (0, 0, 0)


@pytest.mark.slow
async def test_requests_end_with_backend_failed_when_an_engine_of_two_ranks_is_killed(
    http, servers, two_ranks
):
    """The module's first test, so that the ranks do not compete with the others for cores."""
    servers.gateway("impatient_gateway", "ranks")
    servers.let_end("two_ranks")
    await check_killed(http, "ranks", two_ranks, FEW_PLACES, ENGINE)


@both_adapters
@pytest.mark.parametrize(
    ("request_", "phase"),
    [(REASONING, "reasoning"), (CONTENT, "content"), (CALL, "arguments")],
    ids=["reasoning", "content", "call"],
)
async def test_a_client_that_leaves_in_this_phase_frees_its_request(
    http, backend, model, request_, phase
):
    told = StreamRead()
    reading = asyncio.create_task(read(http, {**request_, "model": model}, told))
    await until(lambda: bool(getattr(told, phase)))
    assert running(backend) == 1
    reading.cancel()
    await until(lambda: nothing_is_left(backend))
    assert told.finish is None


async def test_a_client_that_leaves_before_its_whole_answer_frees_its_request(
    http, target, backend
):
    def generated():
        with target.client() as client:
            return metric(client, GENERATED)

    before = generated()
    waiting = asyncio.create_task(http.post(CHAT, json=CONTENT))
    await until(lambda: generated() > before)
    waiting.cancel()
    await until(lambda: nothing_is_left(backend))
    assert generated() - before < CONTENT["max_tokens"]


async def test_queued_clients_that_leave_free_their_requests(http, backend):
    working = [StreamRead() for _ in range(PLACES)]
    tasks = [asyncio.create_task(read(http, CONTENT, told)) for told in working]
    await until(lambda: all(told.content for told in working))
    for stream in (False, True):
        queued = asyncio.create_task(http.post(CHAT, json={**CALL, "stream": stream}))
        await until(lambda: running(backend) == PLACES + 1)
        assert not queued.done()
        queued.cancel()
        await until(lambda: running(backend) == PLACES)
    for task in tasks:
        task.cancel()
    await until(lambda: nothing_is_left(backend))


async def test_a_full_backend_refuses_with_503_and_retry_after(http, backend):
    tasks = [asyncio.create_task(read(http, CONTENT, StreamRead())) for _ in range(MAX_REQUESTS)]
    await until(lambda: running(backend) == MAX_REQUESTS)
    await check_refused(http, CONTENT)
    for task in tasks:
        task.cancel()
    await until(lambda: nothing_is_left(backend))
    assert (await http.post(CHAT, json={**CONTENT, "max_tokens": 5})).status_code == 200


async def check_refused(http, request):
    for stream in (False, True):
        refused = await http.post(CHAT, json={**request, "stream": stream})
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "backend_unavailable"
        assert int(refused.headers["retry-after"]) > 0


async def test_a_slow_reader_delays_neither_the_backend_nor_others(
    impatient_gateway, http, backend
):
    request = {**CONTENT, "max_tokens": 600, "seed": 3, "temperature": 1.0}
    whole = (await http.post(CHAT, json=request)).json()["choices"][0]
    narrow = httpx.AsyncHTTPTransport(
        socket_options=[(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)], trust_env=False
    )
    told = StreamRead()
    async with (
        http_client(impatient_gateway.url, impatient_gateway.key, transport=narrow) as slow,
        slow.stream("POST", CHAT, json={**request, "stream": True}, timeout=120) as response,
    ):
        lines = response.aiter_lines()
        told.take(await anext(lines))
        # Its reading waits; the backend is done with it all the same, and so is a neighbour.
        neighbour = await http.post(CHAT, json={**CONTENT, "max_tokens": 20})
        assert neighbour.json()["choices"][0]["finish_reason"] == "length"
        await until(lambda: nothing_is_left(backend))
        async for line in lines:
            told.take(line)
    assert told.done
    assert (told.content, told.finish) == (whole["message"]["content"], whole["finish_reason"])


async def test_requests_to_a_hanging_backend_end_with_backend_timeout(http, target, backend):
    begun, calling, late = StreamRead(), StreamRead(), StreamRead()
    tasks = [
        asyncio.create_task(read(http, CONTENT, begun)),
        asyncio.create_task(read(http, CALL, calling)),
    ]
    await until(lambda: bool(begun.content and calling.arguments))
    target.signal(signal.SIGSTOP)
    try:
        await asyncio.gather(*tasks, read(http, CONTENT, late))
        for told in (begun, calling):
            assert told.error is not None
            assert told.error["code"] == "backend_timeout"
            assert (told.status, told.finish, told.done) == (200, None, False)
        assert late.error is not None
        assert (late.status, late.error["code"]) == (504, "backend_timeout")
    finally:
        target.signal(signal.SIGCONT)
    await until(lambda: nothing_is_left(backend))
    answer = await http.post(CHAT, json={**CONTENT, "max_tokens": 5})
    assert answer.status_code == 200


@pytest.mark.slow
async def test_requests_end_with_backend_failed_when_an_api_process_is_killed(
    http, servers, second
):
    """The engine and the quarantine end with it, although nothing supervises them."""
    servers.gateway("impatient_gateway", "second")
    servers.let_end("second")
    children = psutil.Process(second.pid).children(recursive=True)
    assert any("EngineCore" in each.name() for each in children)
    await check_killed(http, "second", second, PLACES, None)
    _, alive = await asyncio.to_thread(psutil.wait_procs, children, timeout=30)
    assert not alive


@pytest.mark.skipif(NIGHTLY, reason="other engines are killed, and this stack ends by Ctrl-C")
async def test_requests_and_the_whole_stack_end_when_its_engine_is_killed(http, servers, target):
    """`toolgate serve` says which part ended, and leaves no process. The module's last test: the
    first backend serves all others."""
    stack = servers.stack
    children = psutil.Process(stack.process.pid).children(recursive=True)
    servers.let_end("first")
    await check_killed(http, "tiny", target, PLACES, ENGINE)
    await until(lambda: stack.process.poll() is not None)
    assert stack.process.returncode == 1
    assert "The backend exited with status" in stack.said()
    _, alive = await asyncio.to_thread(psutil.wait_procs, children, timeout=30)
    assert not alive


async def check_killed(http, model, backend, places, process):
    """Kill the backend's processes whose names contain `process`, or its API process, with requests
    in every state."""
    begun, calling, queued = StreamRead(), StreamRead(), StreamRead()
    working = [StreamRead() for _ in range(places - 3)]
    streams = [(CONTENT, begun), (CALL, calling), *((CONTENT, told) for told in working)]
    tasks = [
        asyncio.create_task(read(http, {**request, "model": model}, told))
        for request, told in streams
    ]
    whole = asyncio.create_task(http.post(CHAT, json={**CALL, "model": model}))
    await until(lambda: all(t.content for t in (begun, *working)) and bool(calling.arguments))
    await until(lambda: backend.running() == places)
    tasks.append(asyncio.create_task(read(http, {**CONTENT, "model": model}, queued)))
    await until(lambda: backend.running() == places + 1)
    if process is None:
        psutil.Process(backend.pid).kill()
    else:
        backend.signal(signal.SIGKILL, process)
    await asyncio.gather(*tasks)
    for told in (begun, calling, *working):
        assert told.error is not None
        assert told.error["code"] == "backend_failed"
        assert set(told.error) >= {"message", "type", "param", "code"}
        assert (told.status, told.finish, told.done) == (200, None, False)
    assert (await whole).status_code in (502, 503)
    assert (await whole).json()["error"]["code"] in ("backend_failed", "backend_unavailable")
    assert queued.status in (502, 503)
    assert queued.error is not None
    await until(backend.is_gone)
    await check_refused(http, {**CONTENT, "model": model})
