from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from starlette.types import Message, Send

from tests.support.fake_backend import FakeBackend
from tests.support.script import Script
from tests.support.sdk_requests import asked
from toolgate_proxy.context import RequestContext
from toolgate_proxy.server.connection import COMMENT, KeepAlive

TICK = 0.05


def error_event(body: bytes) -> bytes:
    return b"data: " + body + b"\n\n"


async def through(app: Any, *, seconds: float = TICK) -> list[Message]:
    """What a client is sent of an app's response."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async with KeepAlive(send, seconds, RequestContext(), error_event) as stream:
        await app(stream.send)
    return sent


def answering(*bodies: bytes, status: int = 200, wait: float = 0.0) -> Any:
    async def app(send: Send) -> None:
        await asyncio.sleep(wait)
        await send({"type": "http.response.start", "status": status, "headers": []})
        for body in bodies:
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    return app


def text(sent: list[Message]) -> bytes:
    return b"".join(message.get("body", b"") for message in sent)


async def test_a_response_in_time_passes_unchanged() -> None:
    sent = await through(answering(b"data: a\n\n", b"data: b\n\n"))
    assert text(sent) == b"data: a\n\ndata: b\n\n"
    assert [message["type"] for message in sent].count("http.response.start") == 1


async def test_a_silent_stream_begins_with_comments() -> None:
    sent = await through(answering(b"data: a\n\n", wait=TICK * 5))
    assert sent[0]["status"] == 200
    assert (b"content-type", b"text/event-stream; charset=utf-8") in sent[0]["headers"]
    assert text(sent).startswith(COMMENT)
    assert text(sent).endswith(b"data: a\n\n")
    assert [message["type"] for message in sent].count("http.response.start") == 1


async def test_an_error_after_a_comment_is_an_event() -> None:
    body = json.dumps({"error": {"message": "no", "code": "backend_timeout"}}).encode()
    sent = await through(answering(body[:9], body[9:], status=504, wait=TICK * 5))
    event = text(sent).replace(COMMENT, b"")
    assert event == b"data: " + body + b"\n\n"
    assert not sent[-1].get("more_body")


async def test_the_reservation_is_released_for_an_error_after_a_comment() -> None:
    for status, used in ((503, 0), (200, 60)):
        context = RequestContext(reserved_tokens=60)

        async def gate(message: Message, context: RequestContext = context) -> None:
            if message["type"] == "http.response.start":
                context.begin_response(message["status"])

        app = answering(b"{}", status=status, wait=TICK * 5)
        async with KeepAlive(gate, TICK, context, error_event) as stream:
            await app(stream.send)
        assert (context.status, context.used_tokens()) == (200, used)


async def test_an_error_in_time_keeps_its_status() -> None:
    sent = await through(answering(b"{}", status=400))
    assert sent[0]["status"] == 400
    assert text(sent) == b"{}"


async def test_zero_seconds_disable_comments() -> None:
    sent = await through(answering(b"{}", wait=TICK * 5), seconds=0.0)
    assert text(sent) == b"{}"


async def test_a_stream_that_falls_silent_gets_comments_between_its_events() -> None:
    async def app(send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for event in (b"data: a\n\n", b"data: b\n\n"):
            await send({"type": "http.response.body", "body": event, "more_body": True})
            await asyncio.sleep(TICK * 4)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    said = text(await through(app))
    assert said.startswith(b"data: a\n\n" + COMMENT)
    assert b"data: b\n\n" + COMMENT in said
    assert said.replace(COMMENT, b"") == b"data: a\n\ndata: b\n\n"


async def test_no_comment_follows_the_end_of_a_response() -> None:
    ended = answering(b"data: a\n\n")

    async def app(send: Send) -> None:
        await ended(send)
        await asyncio.sleep(TICK * 4)

    assert text(await through(app)) == b"data: a\n\n"


async def test_no_comment_is_sent_into_an_error_body() -> None:
    async def app(send: Send) -> None:
        await send({"type": "http.response.start", "status": 400, "headers": []})
        await asyncio.sleep(TICK * 4)
        await send({"type": "http.response.body", "body": b"{}"})

    assert text(await through(app)) == b"{}"


async def test_comments_end_with_the_request() -> None:
    """An app that fails, as one does whose client has gone, leaves no task behind."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def fail() -> None:
        async with KeepAlive(send, TICK, RequestContext(), error_event):
            raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        await fail()
    await asyncio.sleep(TICK * 3)
    assert sent == []


async def test_a_queued_request_is_told_that_it_waits(
    http: httpx.AsyncClient, backend: FakeBackend
) -> None:
    """The tests' gateway waits for eight seconds."""
    backend.scripts["queued"] = Script(("Hello",), queued=10.0)
    backend.scripts["late"] = Script(("Hello",), queued=10.0, error_after=0)
    answered, failed = await asyncio.gather(
        http.post("/v1/chat/completions", json=asked("queued", stream=True), timeout=60),
        http.post("/v1/chat/completions", json=asked("late", stream=True), timeout=60),
    )
    assert (answered.status_code, failed.status_code) == (200, 200)
    assert answered.text.startswith(COMMENT.decode())
    said = [line.removeprefix("data: ") for line in answered.text.splitlines()]
    chunks = [json.loads(line) for line in said if line.startswith("{")]
    assert "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks) == "Hello"
    assert answered.text.rstrip().endswith("data: [DONE]")
    assert failed.text.startswith(COMMENT.decode())
    [data] = [line for line in failed.text.splitlines() if line.startswith("data: ")]
    assert json.loads(data.removeprefix("data: "))["error"]["code"] == "enforcement_failed"


async def test_a_requests_own_id_is_honoured(http: httpx.AsyncClient, backend: FakeBackend) -> None:
    backend.scripts["hi"] = Script(("Hello",))
    for given in ("my-request.7", None, "no\tgood", "x" * 200):
        headers = {"x-request-id": given} if given else {}
        for stream in (False, True):
            response = await http.post(
                "/v1/chat/completions", json=asked("hi", stream=stream), headers=headers
            )
            told = response.headers["x-request-id"]
            assert (told == given) is (given == "my-request.7")
            assert backend.requests[-1].request_id.startswith(f"{told}.chatcmpl-")
    refused = await http.post(
        "/v1/chat/completions", json=asked("hi", temperature="hot"), headers={"x-request-id": "r"}
    )
    assert (refused.status_code, refused.headers["x-request-id"]) == (400, "r")


async def test_a_client_that_reads_slowly_gets_all_of_it(
    http: httpx.AsyncClient, backend: FakeBackend
) -> None:
    words = " ".join(f"word{at}" for at in range(3000))
    backend.scripts["long"] = Script((words,))
    said = ""
    async with http.stream(
        "POST", "/v1/chat/completions", json=asked("long", stream=True)
    ) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                [choice] = json.loads(line.removeprefix("data: "))["choices"]
                said += choice["delta"].get("content") or ""
            if len(said) % 50 == 0:
                await asyncio.sleep(0.01)
    assert said == words
