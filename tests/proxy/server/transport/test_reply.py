"""One reply: it begins once, and an error has the form of what was sent before it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from starlette.types import Message

from toolgate_core.errors import BackendLost, RateLimited, RequestTimeout
from toolgate_proxy.api.surfaces import COMPLETIONS, MESSAGES, RESPONSES, SURFACES
from toolgate_proxy.context import RequestContext
from toolgate_proxy.server.transport.connection import Reply

TICK = 0.05
LOST = BackendLost("The backend is gone.")


class Sent:
    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def __call__(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.messages[0]["headers"])

    @property
    def body(self) -> bytes:
        return b"".join(message["body"] for message in self.messages[1:])


class Words:
    """A stream whose last event is the error's code."""

    def events(self, events: Iterable[Any]) -> bytes:
        return b"words"

    async def keep(self) -> None: ...

    def end(self) -> bytes:
        return b"end"

    def failed(self, error: Mapping[str, Any]) -> bytes:
        return f"failed: {error['code']}".encode()


async def test_an_error_that_comes_first_is_the_response() -> None:
    sent, context = Sent(), RequestContext(form=COMPLETIONS)
    reply = Reply(sent, context)
    reply.headers = ((b"x-own", b"1"),)
    await reply.fail(RateLimited("Too many requests.", retry_after=7))
    assert (sent.status, context.error_code) == (429, RateLimited.code)
    assert sent.headers[b"retry-after"] == b"7"
    assert sent.headers[b"x-own"] == b"1"
    assert sent.headers[b"content-length"] == str(len(sent.body)).encode()
    assert json.loads(sent.body)["error"]["message"] == "Too many requests."
    assert not sent.messages[-1]["more_body"]


async def test_a_body_that_never_came_closes_the_connection() -> None:
    sent = Sent()
    await Reply(sent, RequestContext()).fail(RequestTimeout("The body did not arrive."))
    assert sent.headers[b"connection"] == b"close"


@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: surface.name)
async def test_an_error_after_a_comment_is_an_event_of_the_api(surface: Any) -> None:
    sent, context = Sent(), RequestContext(form=surface)
    reply = Reply(sent, context)
    reply.stream = Words()
    async with reply.kept_alive(TICK, surface.keep_alive):
        await asyncio.sleep(TICK * 2.5)
        await reply.fail(LOST)
    assert (sent.status, context.failed) == (200, True)
    assert sent.body.startswith(surface.keep_alive)
    assert sent.body.endswith(surface.error_event(surface.error(LOST)))


@pytest.mark.parametrize("surface", [RESPONSES, MESSAGES], ids=lambda surface: surface.name)
async def test_an_error_after_output_is_the_last_event_of_the_stream(surface: Any) -> None:
    sent, context, words = Sent(), RequestContext(form=surface), Words()
    reply = Reply(sent, context)
    reply.stream = words
    await reply.event(b"words ")
    await reply.fail(LOST)
    assert sent.body == f"words failed: {LOST.code}".encode()
    assert [message["type"] for message in sent.messages].count("http.response.start") == 1
    assert context.failed
