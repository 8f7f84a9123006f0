"""The stream of a backend: its parser, and events without end."""

from __future__ import annotations

from typing import ClassVar, cast

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgate_core import wire
from toolgate_core.errors import BackendFailed
from toolgate_proxy.backend_client import event_stream
from toolgate_proxy.backend_client.body import bound_of
from toolgate_proxy.backend_client.event_stream import EventStream, SseParser

STREAM = b': hm\n\ndata: {"a": 1}\r\n\r\nevent: x\ndata:{"b": "\xc3\xa9"}\n\ndata: {"c'
PAYLOADS = [b'{"a": 1}', b'{"b": "\xc3\xa9"}']


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_payloads_do_not_depend_on_chunk_boundaries(cuts: list[int]) -> None:
    parser, at, payloads = SseParser(), 0, []
    for cut in [*sorted(cuts), len(STREAM)]:
        payloads += parser.feed(STREAM[at:cut])
        at = cut
    assert payloads == PAYLOADS


@given(st.lists(st.binary(max_size=30), max_size=8))
def test_any_bytes_are_lines_or_pending(parts: list[bytes]) -> None:
    parser = SseParser()
    payloads = [payload for part in parts for payload in parser.feed(part)]
    *lines, rest = b"".join(parts).split(b"\n")
    assert payloads == [line[5:].strip() for line in lines if line.startswith(b"data:")]
    assert parser.pending == len(rest)


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
