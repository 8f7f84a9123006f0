from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pydantic import SecretStr

from tests.support.servers.fake_backend import INFO, KEY, FakeBackend
from tests.support.servers.script import Script
from toolgate_core import wire
from toolgate_core.errors import (
    BackendFailed,
    BackendLost,
    BackendTimeout,
    BackendUnavailable,
    InvalidRequest,
)
from toolgate_proxy.backend_client import client as client_module
from toolgate_proxy.backend_client.client import Backend
from toolgate_proxy.settings import Settings

QUICK = Settings(first_token_timeout=0.5, request_timeout=1.0)


@pytest.fixture
async def seam(backend: FakeBackend) -> AsyncIterator[Backend]:
    client = Backend(f"{backend.url}/v1/", SecretStr(KEY), Settings())
    yield client
    await client.aclose()


@asynccontextmanager
async def client_of(
    handler: Callable[[web.Request], Awaitable[web.Response]],
) -> AsyncIterator[Backend]:
    """A client of a server that handles every request by `handler`."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    async with TestServer(app) as server:
        client = Backend(str(server.make_url("")), None, Settings())
        yield client
        await client.aclose()


def responding(
    status: int = 200, text: str = ""
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(status=status, text=text)

    return handler


def request(script: str, *, stream: bool = True, key: str | None = None) -> wire.GenerateRequest:
    candidates = (wire.Candidate(name="look", key=key),) if key else ()
    return wire.GenerateRequest(
        request_id="r",
        model="tiny",
        prompt=wire.ChatPrompt(messages=({"role": "user", "content": script},)),
        enforcement=wire.Enforcement(candidates=candidates),
        stream=stream,
    )


async def events(
    client: Backend, message: wire.GenerateRequest, deadline: float | None = None
) -> list[wire.StreamEvent]:
    stream = await client.generate(message, deadline)
    try:
        return [event async for batch in stream for event in batch]
    finally:
        await stream.aclose()


@pytest.mark.parametrize(
    ("content", "cause"), [("\ud83d", r"surrogate pair \(.ud83d"), ([[]], "nested too deeply")]
)
async def test_prompt_that_cannot_be_encoded_as_json_is_an_invalid_request(
    seam: Backend, content: object, cause: str
) -> None:
    for _ in range(300):
        content = [content] if isinstance(content, list) else content
    good: dict[str, Any] = {"role": "user", "content": "hi"}
    bad: dict[str, Any] = {"role": "user", "content": content}
    for prompt, param in (
        (wire.ChatPrompt(messages=(good, bad)), "messages[1]"),
        (wire.ChatPrompt(messages=(good,), tools=(bad,)), "tools"),
        (wire.ChatPrompt(messages=(good,), template_kwargs=bad), "chat_template_kwargs"),
    ):
        with pytest.raises(InvalidRequest, match=cause) as refused:
            await seam.generate(request("hi").model_copy(update={"prompt": prompt}))
        assert refused.value.param == param


async def test_words_that_cannot_be_encoded_as_json_are_an_invalid_request(seam: Backend) -> None:
    sampling = wire.Sampling.model_construct(bad_words=("\ud83d",))
    with pytest.raises(InvalidRequest, match="surrogate pair") as refused:
        await seam.generate(request("hi").model_copy(update={"sampling": sampling}))
    assert refused.value.param == "bad_words"


async def test_info_is_cached(seam: Backend, backend: FakeBackend) -> None:
    assert await seam.info() == INFO
    backend.info = INFO.model_copy(update={"model": "other"})
    try:
        assert (await seam.info()).model == "tiny"
        seam.forget_info()
        assert (await seam.info()).model == "other"
    finally:
        backend.info = INFO


async def test_concurrent_info_calls_share_one_request() -> None:
    requests = 0

    async def handler(_: web.Request) -> web.Response:
        nonlocal requests
        requests += 1
        return web.Response(text=INFO.model_dump_json())

    async with client_of(handler) as client:
        await asyncio.gather(*(client.info() for _ in range(5)))
    assert requests == 1


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (200, json.dumps({"format": 99})),
        (200, json.dumps({"format": wire.FORMAT})),
        (200, "[]"),
        (200, "<html>"),
        (307, ""),
        (404, json.dumps({"detail": "Not Found"})),
    ],
)
async def test_server_that_is_not_a_backend_is_rejected(status: int, text: str) -> None:
    async with client_of(responding(status, text)) as client:
        with pytest.raises(BackendFailed):
            await client.info()


async def test_a_backend_with_another_key_is_unavailable() -> None:
    async with client_of(responding(401, json.dumps({"error": "Unauthorized"}))) as client:
        with pytest.raises(BackendUnavailable, match="TOOLGATE_BACKEND_KEY"):
            await client.info()


async def test_connection_closed_before_the_response_raises_unavailable() -> None:
    async def handler(received: web.Request) -> web.Response:
        assert received.transport is not None
        received.transport.close()
        return web.Response()

    async with client_of(handler) as client:
        with pytest.raises(BackendUnavailable):
            await client.generate(request("hi"))


async def test_continued_response_keeps_the_first_deadline(
    seam: Backend, backend: FakeBackend
) -> None:
    backend.scripts["slow"] = Script(("Hello",), hang_after=1)
    first = await seam.generate(request("slow"))
    await first.aclose()
    again = await seam.generate(request("slow"), first.deadline)
    assert again.deadline == first.deadline
    await again.aclose()
    with pytest.raises(BackendTimeout):
        await events(seam, request("slow"), time.monotonic() + 0.3)
    with pytest.raises(BackendTimeout):
        await seam.generate(request("slow"), time.monotonic() - 1)


async def test_response_without_end_events_raises_backend_failed() -> None:
    start = wire.StartEvent(prompt_tokens=1, reasoning_open=False).model_dump_json()
    for message, text in ((request("x"), f"data: {start}\n\n"), (request("x", stream=False), "[]")):
        async with client_of(responding(text=text)) as client:
            with pytest.raises(BackendFailed):
                await events(client, message)


async def test_unknown_event_raises_backend_failed() -> None:
    async with client_of(responding(text='data: {"event": "surprise"}\n\n')) as client:
        with pytest.raises(BackendFailed):
            await events(client, request("x"))


@pytest.mark.exhaustive
async def test_response_without_events_times_out_despite_keep_alives(backend: FakeBackend) -> None:
    backend.scripts["hang"] = Script(("Hello you",), hang_after=1)
    client = Backend(backend.url, SecretStr(KEY), QUICK)
    with pytest.raises(BackendTimeout):  # keep-alives go on, the request's time does not
        await events(client, request("hang"))
    with pytest.raises(BackendTimeout):
        await client.generate(request("hang", stream=False))
    await client.aclose()


async def test_the_idle_timeout_is_that_of_the_backend_not_of_the_reader(
    backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "IDLE_SECONDS", 0.3)
    backend.scripts["slow"] = Script(("Hello you",), pause=0.05)
    client = Backend(backend.url, SecretStr(KEY), Settings())
    stream, read = await client.generate(request("slow")), list[wire.StreamEvent]()
    async for batch in stream:
        read += batch
        await asyncio.sleep(0.4 if len(read) < 4 else 0)
    await stream.aclose()
    assert read[-1].event == "usage"
    await client.aclose()


async def test_dead_engine_raises_backend_lost_before_and_during_a_stream() -> None:
    start = wire.StartEvent(prompt_tokens=1, reasoning_open=False)
    died = wire.ErrorEvent(status=502, error=BackendFailed("The engine died.").body()["error"])
    text = "".join(f"data: {event.model_dump_json()}\n\n" for event in (start, died))
    for status, body in ((200, text), (502, json.dumps(died.error))):
        async with client_of(responding(status, body)) as client:
            with pytest.raises(BackendLost):
                await events(client, request("x"))


@pytest.mark.exhaustive
async def test_keep_alives_do_not_extend_the_first_token_timeout(backend: FakeBackend) -> None:
    backend.scripts["hang"] = Script(("Hello you",), hang_after=0)
    backend.scripts["slow"] = Script(("Hello you",), pause=0.5)
    patient = Settings(first_token_timeout=0.4, request_timeout=60)
    client = Backend(backend.url, SecretStr(KEY), patient)
    with pytest.raises(BackendTimeout):
        await events(client, request("hang"))
    assert (await events(client, request("slow")))[-1].event == "usage"  # longer, once it has begun
    await client.aclose()
