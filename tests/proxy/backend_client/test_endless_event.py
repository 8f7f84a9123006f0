"""An event without end is an error, not memory."""

from __future__ import annotations

from typing import ClassVar, cast

import aiohttp
import pytest

from toolgate_core import wire
from toolgate_core.errors import BackendFailed
from toolgate_proxy.backend_client import event_stream
from toolgate_proxy.backend_client.body import bound_of
from toolgate_proxy.backend_client.event_stream import EventStream

REQUEST = wire.GenerateRequest(
    request_id="r",
    model="tiny",
    prompt=wire.ChatPrompt(messages=({"role": "user", "content": "hi"},)),
    stream=True,
)


class Endless:
    """A response whose line never ends."""

    read = 0
    headers: ClassVar[dict[str, str]] = {}
    content_length = None

    @property
    def content(self) -> Endless:
        return self

    async def readany(self) -> bytes:
        self.read += 1
        return b"data: " + b"x" * 1000

    def close(self) -> None:
        return


async def test_an_event_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "MAX_EVENT_BYTES", 50_000)
    response = Endless()
    far = 1e12
    stream = EventStream(
        cast(aiohttp.ClientResponse, response), REQUEST, bound_of(REQUEST, None), 60.0, far, far
    )
    with pytest.raises(BackendFailed, match="more than 50,000 bytes"):
        async for _ in stream:
            pass
    assert response.read < 60
    await stream.aclose()
