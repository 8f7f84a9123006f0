"""Messages to a backend as JSON, bodies of its responses, and its event streams."""

from __future__ import annotations

import json
from typing import Any, ClassVar, cast

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.servers.fake_backend import INFO
from toolgate_core import wire
from toolgate_core.errors import BackendFailed, InvalidRequest
from toolgate_proxy.backend_client import event_stream
from toolgate_proxy.backend_client.body import MAX_WHOLE, bound_of, fitting
from toolgate_proxy.backend_client.event_stream import EventStream, SseParser
from toolgate_proxy.backend_client.message_json import LONG, Pieces, encoded
from toolgate_proxy.json_values import exceeds


def request(*messages: dict[str, Any]) -> wire.GenerateRequest:
    return wire.GenerateRequest(
        request_id="r", model="tiny", prompt=wire.ChatPrompt(messages=messages)
    )


def user(content: object) -> dict[str, Any]:
    return {"role": "user", "content": content}


@pytest.mark.parametrize(
    "messages",
    [
        [user("x" * LONG)],
        [user("a"), user('"\\\n\x00é€😀' * LONG), user("b" * (2 * LONG + 1)), user("")],
        [user([{"type": "image_url", "image_url": {"url": "data:" + "A" * LONG}}, {"a": None}])],
        [user("a") | {"tool_calls": [{"function": {"arguments": "x" * (LONG + 1)}}], "n": 2**70}],
    ],
)
async def test_long_strings_are_sent_in_pieces_of_the_same_message(
    messages: list[dict[str, Any]],
) -> None:
    message = request(*messages)
    pieces = encoded(message)
    assert isinstance(pieces, Pieces)
    for _ in range(2):
        sent = [each async for each in pieces]
        assert json.loads(b"".join(sent)) == json.loads(message.model_dump_json(exclude_none=True))
        assert max(map(len, sent)) <= 6 * LONG


def test_other_messages_are_encoded_at_once() -> None:
    message = request(user("x" * (LONG - 1)))
    sent = encoded(message)
    assert isinstance(sent, bytes)
    assert json.loads(sent) == json.loads(message.model_dump_json(exclude_none=True))


@pytest.mark.parametrize("content", ["x" * LONG + "\ud800", "\udc00" + "é" * LONG])
def test_a_long_string_that_is_not_unicode_is_refused_before_anything_is_sent(
    content: str,
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        encoded(request(user("a"), user(content)))
    assert refusal.value.param == "messages[1]"


@pytest.mark.parametrize("levels", [300, 5000])
def test_a_value_that_is_too_deep_is_refused_beside_a_long_string(levels: int) -> None:
    deep: Any = 1
    for _ in range(levels):
        deep = [deep]
    with pytest.raises(InvalidRequest) as refusal:
        encoded(request(user("x" * LONG), user(deep)))
    assert refusal.value.param == "messages[1]"


SPACES = " " * 128
TOKENS = 2000
LOGPROB = {"token": "\u00e9" * 8, "bytes": [195, 169] * 8, "logprob": -12.345678901234567}


def asked(stream: bool, **sampling: Any) -> wire.GenerateRequest:
    return wire.GenerateRequest(
        request_id="r",
        model="tiny",
        prompt=wire.ChatPrompt(messages=()),
        sampling=wire.Sampling(max_tokens=TOKENS, **sampling),
        stream=stream,
    )


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("text", ["a", ",", SPACES, "\n" * 60, '"' * 60])
@pytest.mark.parametrize("top", [None, 0, 20])
def test_an_honest_response_is_within_its_bound(stream: bool, text: str, top: int | None) -> None:
    entry = LOGPROB | {"top": [LOGPROB] * (top or 0)}
    per_event = 1 if stream else TOKENS
    event = wire.TokensEvent.model_validate(
        {
            "choice": 0,
            "ids": [151_000] * per_event,
            "texts": [text] * per_event,
            "logprobs": None if top is None else [entry] * per_event,
        }
    )
    body = event.model_dump_json().encode() * (TOKENS // per_event)
    bound = bound_of(asked(stream, logprobs=top), INFO)
    assert len(body) <= bound.body.bytes
    assert not exceeds(body, bound.body.values)
    assert bound.tokens == TOKENS


def test_a_response_that_is_too_large_for_one_message_is_streamed_by_the_backend() -> None:
    assert not fitting(asked(False, logprobs=20), INFO).stream
    large = fitting(asked(False, n=128, logprobs=20), INFO)
    assert large.stream
    assert large.batched
    assert bound_of(large, INFO).body.bytes > MAX_WHOLE.bytes


def test_a_whole_response_has_an_absolute_bound() -> None:
    bound = bound_of(asked(False, n=128, logprobs=20), INFO)
    assert bound.body == MAX_WHOLE
    assert bound_of(asked(True, n=128, logprobs=20), INFO).body.bytes > MAX_WHOLE.bytes


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
