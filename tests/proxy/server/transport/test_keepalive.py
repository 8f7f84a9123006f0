from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from starlette.types import Message, Send

from toolgate_proxy.api.shared.output import COMMENT
from toolgate_proxy.context import RequestContext
from toolgate_proxy.keys.limit_kinds import Tokens
from toolgate_proxy.server.transport.connection import Reply

TICK = 0.05


async def through(app: Any, *, seconds: float = TICK) -> list[Message]:
    """What a client is sent of an app's response."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    reply = Reply(send, RequestContext())
    async with reply.kept_alive(seconds):
        await app(reply.forward)
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


async def test_response_in_time_is_unchanged() -> None:
    sent = await through(answering(b"data: a\n\n", b"data: b\n\n"))
    assert text(sent) == b"data: a\n\ndata: b\n\n"
    assert [message["type"] for message in sent].count("http.response.start") == 1


async def test_idle_stream_starts_with_comments() -> None:
    sent = await through(answering(b"data: a\n\n", wait=TICK * 5))
    assert sent[0]["status"] == 200
    assert (b"content-type", b"text/event-stream; charset=utf-8") in sent[0]["headers"]
    assert text(sent).startswith(COMMENT)
    assert text(sent).endswith(b"data: a\n\n")
    assert [message["type"] for message in sent].count("http.response.start") == 1


async def test_error_after_a_comment_is_sent_as_an_event() -> None:
    body = json.dumps({"error": {"message": "no", "code": "backend_timeout"}}).encode()
    sent = await through(answering(body[:9], body[9:], status=504, wait=TICK * 5))
    event = text(sent).replace(COMMENT, b"")
    assert event == b"data: " + body + b"\n\n"
    assert not sent[-1].get("more_body")


async def test_error_after_a_comment_releases_the_reservation() -> None:
    for status, used in ((503, 0), (200, 60)):
        context = RequestContext(uncounted=Tokens(20, 40))

        async def gate(message: Message, context: RequestContext = context) -> None:
            if message["type"] == "http.response.start":
                context.begin_response(message["status"])

        app = answering(b"{}", status=status, wait=TICK * 5)
        reply = Reply(gate, context)
        async with reply.kept_alive(TICK):
            await app(reply.forward)
        assert (context.status, context.used_tokens().total) == (200, used)


async def test_error_in_time_keeps_its_status() -> None:
    sent = await through(answering(b"{}", status=400))
    assert sent[0]["status"] == 400
    assert text(sent) == b"{}"


async def test_zero_seconds_disable_comments() -> None:
    sent = await through(answering(b"{}", wait=TICK * 5), seconds=0.0)
    assert text(sent) == b"{}"


async def test_idle_stream_gets_comments_between_events() -> None:
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


async def test_no_comment_is_sent_after_the_end_of_a_response() -> None:
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
    """No task is left when the app fails, for example because its client disconnected."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def fail() -> None:
        async with Reply(send, RequestContext()).kept_alive(TICK):
            raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        await fail()
    await asyncio.sleep(TICK * 3)
    assert sent == []
