"""What clients are told when a backend is killed, hangs or is busy, and what those who leave or
read slowly leave behind: with vLLM's own processes. The gateway's part, against scripted backends,
is in tests/proxy."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import jsonschema
import pytest

from tests import tools
from tests.models import tiny_model
from toolgate_proxy.demo.run import closers

from .conftest import status
from .faulty import ADAPTER, IN_HAND, PLACES, Faulty, Told, faulty

CHAT = "/v1/chat/completions"
USER = [{"role": "user", "content": "Go on and on."}]
ENDLESS: dict[str, Any] = {"model": "tiny", "messages": USER, "max_tokens": 6000}
CONTENT = {**ENDLESS, "ignore_eos": True, "reasoning_effort": "none"}
# Thousands of tokens: a call that is still being written when something happens to it.
FLAGS = {"type": "array", "items": {"type": "boolean"}, "minItems": 2500, "maxItems": 2500}
LONG = tools.tool("set_flags", {"flags": FLAGS})
CALL = {**ENDLESS, "tools": [LONG], "tool_choice": "required", "reasoning_effort": "none"}
REASONING = {**ENDLESS, "reasoning_effort": "high"}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faulty]:
    """In the place of the suite's stack, which nothing may happen to."""
    with faulty(tmp_path_factory.mktemp("faulty")) as running:
        yield running


@pytest.fixture
def backend(stack: Faulty) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {stack.key}"}
    url = f"{stack.backends['tiny'][0]}/v1/toolgate"
    with httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False) as http:
        yield http


@pytest.fixture
async def http(stack: Faulty) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"authorization": f"Bearer {stack.key}"}
    async with httpx.AsyncClient(
        base_url=stack.url, headers=headers, timeout=120, trust_env=False
    ) as client:
        yield client


async def read(http: httpx.AsyncClient, request: dict[str, Any], told: Told) -> Told:
    async with http.stream("POST", CHAT, json={**request, "stream": True}) as response:
        told.status, told.headers = response.status_code, dict(response.headers)
        if response.is_error:
            told.error = (await response.aread() and response.json())["error"]
        else:
            async for line in response.aiter_lines():
                told.take(line)
    return told


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(holds):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def nothing_is_left(backend: httpx.Client) -> bool:
    if backend.get("/status").json()["running"]:
        return False
    left = status(backend)
    return (left.running, left.sequences, left.pinned_grammars) == (0, 0, 0)


async def test_an_adapter_is_asked_for_by_its_name(http: httpx.AsyncClient) -> None:
    """No fault: the suite's one backend with adapters is this one."""
    plain = {**CONTENT, "max_tokens": 12, "temperature": 0}
    said = {
        model: (await http.post(CHAT, json={**plain, "model": model})).json()
        for model in ("tiny", ADAPTER)
    }
    texts = {each["choices"][0]["message"]["content"] for each in said.values()}
    assert len(texts) == 2
    assert said[ADAPTER]["model"] == ADAPTER
    forced = {**CALL, "tools": [tools.WEATHER], "model": ADAPTER, "max_tokens": 300}
    forced["logit_bias"] = closers(tiny_model())
    called = await http.post(CHAT, json={**forced, "seed": 11})
    [call, *_] = called.json()["choices"][0]["message"]["tool_calls"]
    schema = tools.WEATHER["function"]["parameters"]
    jsonschema.validate(json.loads(call["function"]["arguments"]), schema)


@pytest.mark.parametrize(
    ("request_", "phase"),
    [(REASONING, "reasoning"), (CONTENT, "content"), (CALL, "arguments")],
    ids=["reasoning", "content", "call"],
)
async def test_who_leaves_in_this_phase_leaves_nothing(
    http: httpx.AsyncClient, backend: httpx.Client, request_: dict[str, Any], phase: str
) -> None:
    told = Told()
    reading = asyncio.create_task(read(http, request_, told))
    await until(lambda: bool(getattr(told, phase)))
    assert backend.get("/status").json()["running"] == 1
    reading.cancel()
    await until(lambda: nothing_is_left(backend))
    assert told.finish is None


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_who_leaves_the_queue_leaves_nothing(
    http: httpx.AsyncClient, backend: httpx.Client, stream: bool
) -> None:
    working = [Told() for _ in range(PLACES)]
    tasks = [asyncio.create_task(read(http, CONTENT, told)) for told in working]
    await until(lambda: all(told.content for told in working))
    queued = asyncio.create_task(http.post(CHAT, json={**CALL, "stream": stream}))
    await until(lambda: backend.get("/status").json()["running"] == PLACES + 1)
    assert not queued.done()
    queued.cancel()
    await until(lambda: backend.get("/status").json()["running"] == PLACES)
    for task in tasks:
        task.cancel()
    await until(lambda: nothing_is_left(backend))


async def test_what_a_full_backend_does_not_take_on_is_told_when_to_come_again(
    http: httpx.AsyncClient, backend: httpx.Client
) -> None:
    tasks = [asyncio.create_task(read(http, CONTENT, Told())) for _ in range(IN_HAND)]
    await until(lambda: backend.get("/status").json()["running"] == IN_HAND)
    for stream in (False, True):
        refused = await http.post(CHAT, json={**CONTENT, "stream": stream})
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "backend_unavailable"
        assert int(refused.headers["retry-after"]) > 0
    for task in tasks:
        task.cancel()
    await until(lambda: nothing_is_left(backend))
    assert (await http.post(CHAT, json={**CONTENT, "max_tokens": 5})).status_code == 200


async def test_a_client_that_reads_slowly_holds_nobody_up(
    stack: Faulty, http: httpx.AsyncClient, backend: httpx.Client
) -> None:
    request = {**CONTENT, "max_tokens": 600, "seed": 3, "temperature": 1.0}
    whole = (await http.post(CHAT, json=request)).json()["choices"][0]
    narrow = httpx.AsyncHTTPTransport(
        socket_options=[(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)], trust_env=False
    )
    headers = {"authorization": f"Bearer {stack.key}"}
    told = Told()
    async with (
        httpx.AsyncClient(base_url=stack.url, headers=headers, transport=narrow) as slow,
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


async def test_a_backend_that_hangs_is_given_up(
    stack: Faulty, http: httpx.AsyncClient, backend: httpx.Client
) -> None:
    begun, calling, late = Told(), Told(), Told()
    tasks = [
        asyncio.create_task(read(http, CONTENT, begun)),
        asyncio.create_task(read(http, CALL, calling)),
    ]
    await until(lambda: bool(begun.content and calling.arguments))
    stack.signal("tiny", signal.SIGSTOP)
    try:
        await asyncio.gather(*tasks, read(http, CONTENT, late))
        for told in (begun, calling):
            assert told.error is not None
            assert told.error["code"] == "backend_timeout"
            assert (told.status, told.finish, told.done) == (200, None, False)
        assert late.error is not None
        assert (late.status, late.error["code"]) == (504, "backend_timeout")
    finally:
        stack.signal("tiny", signal.SIGCONT)
    await until(lambda: nothing_is_left(backend))
    answer = await http.post(CHAT, json={**CONTENT, "max_tokens": 5})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("model", "process"),
    [("doomed", "VLLM::EngineCore"), ("tiny", "")],
    ids=["its engine alone", "all of it"],
)
async def test_a_backend_that_is_killed(
    stack: Faulty, http: httpx.AsyncClient, model: str, process: str
) -> None:
    """With requests in every state. The last of the module: nothing brings a backend back."""
    begun, calling, queued = Told(), Told(), Told()
    working = [Told() for _ in range(PLACES - 3)]
    streams = [(CONTENT, begun), (CALL, calling), *((CONTENT, told) for told in working)]
    tasks = [
        asyncio.create_task(read(http, {**request, "model": model}, told))
        for request, told in streams
    ]
    whole = asyncio.create_task(http.post(CHAT, json={**CALL, "model": model}))
    await until(lambda: all(t.content for t in (begun, *working)) and bool(calling.arguments))
    await until(lambda: running(stack, model) == PLACES)
    tasks.append(asyncio.create_task(read(http, {**CONTENT, "model": model}, queued)))
    await until(lambda: running(stack, model) == PLACES + 1)
    stack.signal(model, signal.SIGKILL, process)
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
    await until(lambda: is_gone(stack, model))
    for stream in (False, True):
        refused = await http.post(CHAT, json={**CONTENT, "model": model, "stream": stream})
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "backend_unavailable"
        assert int(refused.headers["retry-after"]) > 0


def running(stack: Faulty, model: str) -> int:
    """Requests that the backend has in hand."""
    headers = {"authorization": f"Bearer {stack.key}"}
    url = f"{stack.backends[model][0]}/v1/toolgate/status"
    count: int = httpx.get(url, headers=headers, trust_env=False).json()["running"]
    return count


def is_gone(stack: Faulty, model: str) -> bool:
    """vLLM's server ends itself some seconds after its engine."""
    try:
        httpx.get(f"{stack.backends[model][0]}/health", trust_env=False)
    except httpx.ConnectError:
        return True
    except httpx.TransportError:
        return False
    return False
