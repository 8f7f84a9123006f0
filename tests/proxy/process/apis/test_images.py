"""Images in requests to a running gateway."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import httpx
import pytest

from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.script import Script

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 40
URI = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
WHERE = "messages[0].content[1].image_url"


def asking(*urls: str) -> list[dict[str, Any]]:
    images = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return [{"role": "user", "content": [{"type": "text", "text": "see"}, *images]}]


@pytest.mark.parametrize("stream", [True, False])
async def test_image_for_a_text_model_returns_400(
    http: httpx.AsyncClient, backend: FakeBackend, stream: bool
) -> None:
    """The fake backend's model does not see."""
    backend.scripts["see"] = Script(("A cat.",))
    before = len(backend.requests)
    for url in (URI, "http://169.254.169.254/"):
        body = {"model": "tiny", "messages": asking(url), "stream": stream}
        answer = await http.post("/v1/chat/completions", json=body)
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert (error["param"], error["code"]) == (WHERE, "unsupported_parameter")
    assert len(backend.requests) == before


async def test_image_data_reaches_a_vision_model(
    http: httpx.AsyncClient, backend: FakeBackend
) -> None:
    backend.scripts["see"] = Script(("A cat.",))
    backend.info = backend.info.model_copy(update={"images": True})
    last = {"role": "user", "content": "see"}
    body = {"model": "tiny", "messages": [*asking(URI), last]}
    try:
        async with asyncio.timeout(30):  # until the gateway has asked what the backend is
            while (answer := await http.post("/v1/chat/completions", json=body)).is_error:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        hidden = {"model": "tiny", "messages": [*asking("http://127.0.0.1:1/a.png"), last]}
        refused = await http.post("/v1/chat/completions", json=hidden)
    finally:
        backend.info = backend.info.model_copy(update={"images": False})
    assert answer.json()["choices"][0]["message"]["content"] == "A cat."
    prompt = backend.requests[-1].prompt
    assert prompt.kind == "chat"
    assert prompt.messages[0]["content"][1] == {"type": "image_url", "image_url": {"url": URI}}
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, WHERE)
    assert "not public" in refused.json()["error"]["message"]
