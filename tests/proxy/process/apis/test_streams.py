"""Streams of a running gateway: keep-alive comments, request ids and slow clients."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.apis.sdk_requests import asked
from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.gateway_process import MASTER_KEY, Gateway, serving
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.script import Script
from toolgate_proxy.api.shared.output import COMMENT

CHAT = "/v1/chat/completions"


@pytest.fixture
def impatient(route: str, backend: FakeBackend, tmp_path: Path) -> Iterator[Gateway]:
    """A gateway that sends a keep-alive after half a second without an event."""
    settings = {
        "TOOLGATE_KEEPALIVE_SECONDS": "0.5",
        "TOOLGATE_ROUTE": "litellm" if route == "litellm" else "auto",
    }
    with serving(("--model", "tiny"), backend.url, tmp_path / "log", **settings) as gateway:
        yield gateway


async def test_a_queued_stream_begins_with_keep_alive_comments(
    impatient: Gateway, backend: FakeBackend
) -> None:
    backend.scripts["queued"] = Script(("Hello",), queued=1.5)
    backend.scripts["late"] = Script(("Hello",), queued=1.5, error_after=0)
    headers = bearer(MASTER_KEY)
    async with http_client(impatient.url, headers=headers, timeout=60) as http:
        answered, failed = await asyncio.gather(
            *(http.post(CHAT, json=asked(script, stream=True)) for script in ("queued", "late"))
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


async def test_a_safe_request_id_is_kept_and_sent_to_the_backend(
    http: httpx.AsyncClient, backend: FakeBackend
) -> None:
    backend.scripts["hi"] = Script(("Hello",))
    for given in ("my-request.7", None, "no\tgood", "x" * 200):
        headers = {"x-request-id": given} if given else {}
        for stream in (False, True):
            response = await http.post(CHAT, json=asked("hi", stream=stream), headers=headers)
            told = response.headers["x-request-id"]
            assert (told == given) is (given == "my-request.7")
            assert backend.requests[-1].request_id.startswith(f"{told}.chatcmpl-")
    refused = await http.post(
        CHAT, json=asked("hi", temperature="hot"), headers={"x-request-id": "r"}
    )
    assert (refused.status_code, refused.headers["x-request-id"]) == (400, "r")


async def test_a_slow_reader_gets_the_whole_stream(
    http: httpx.AsyncClient, backend: FakeBackend
) -> None:
    words = " ".join(f"word{at}" for at in range(1200))
    backend.scripts["long"] = Script((words,))
    said = ""
    async with http.stream("POST", CHAT, json=asked("long", stream=True)) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                [choice] = json.loads(line.removeprefix("data: "))["choices"]
                said += choice["delta"].get("content") or ""
            if len(said) % 50 == 0:
                await asyncio.sleep(0.01)
    assert said == words
