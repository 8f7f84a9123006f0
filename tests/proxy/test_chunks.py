"""Streams as bytes: the same events as LiteLLM's chunks, and only where nobody reads the chunks."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
from fake_backend import FakeBackend
from gateway_process import MASTER_KEY
from hypothesis import given
from hypothesis import strategies as st
from litellm.proxy import common_request_processing, proxy_server
from litellm.proxy.hooks.responses_id_security import ResponsesIDSecurity
from litellm.proxy.utils import ProxyLogging
from litellm.types.utils import ModelResponseStream
from script import Script

from toolgate_core.deltas import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    ContentDelta,
    Finish,
    ReasoningDelta,
)
from toolgate_core.wire import TokenLogprob
from toolgate_proxy.api.chat_completions.shaping import Chunks
from toolgate_proxy.chat.answer import Head, Piece, TokenCounts
from toolgate_proxy.chat.choice import Said, TokenIds
from toolgate_proxy.frames import Frame, Frames
from toolgate_proxy.litellm_host import raw_stream as unread
from toolgate_proxy.sse import SseParser

ANSWER: Any = SimpleNamespace(
    head=Head("chatcmpl-1", 1, "backend-model", "fp_1"),
    request=SimpleNamespace(legacy_functions=False, continuous_usage=False),
    prompt_token_ids=None,
    prompt_text=None,
    prompt_logprobs=None,
    call_id=lambda start: "call_1",
    counts=TokenCounts(prompt=3, cached=0, completion=2, reasoning=0),
)
TEXTS = st.text(max_size=8)
LOGPROB = TokenLogprob(token="a", bytes=(97,), logprob=-0.5)
LOGPROBS = st.sampled_from([(), (LOGPROB,)])
EVENTS: st.SearchStrategy[Said] = st.one_of(
    st.builds(ContentDelta, TEXTS, LOGPROBS),
    st.builds(ReasoningDelta, TEXTS, LOGPROBS),
    st.builds(ArgumentsDelta, st.integers(0, 2), TEXTS, LOGPROBS),
    st.just(TokenIds((1, 2))),
    st.builds(CallStart, st.integers(0, 2), st.sampled_from(["a", "b"])),
    st.just(CallEnd(0)),
    st.just(Finish("stop")),
)
BATCHES = st.lists(st.lists(st.builds(Piece, st.integers(0, 1), EVENTS), max_size=4), max_size=5)


def events(frames: Iterable[bytes]) -> list[Any]:
    parser = SseParser()
    return [json.loads(data) for frame in frames for data in parser.feed(frame)]


def without_ids(event: Any) -> Any:
    """A call's id is drawn for each shaping."""
    for choice in event["choices"]:
        for call in choice["delta"].get("tool_calls") or []:
            assert (call.pop("id", None) is None) == ("name" not in call["function"])
    return event


@given(BATCHES, st.booleans(), st.booleans(), st.sampled_from([None, (7, 8)]))
def test_frames_say_what_chunks_say(
    batches: list[list[Piece]],
    legacy: bool,
    continuous: bool,
    prompt: tuple[int, ...] | None,
) -> None:
    request = SimpleNamespace(legacy_functions=legacy, continuous_usage=continuous)
    answer: Any = SimpleNamespace(**(vars(ANSWER) | {"request": request}))
    answer.prompt_token_ids = prompt
    chunks, frames = Chunks(answer), Frames(Chunks(answer), "asked-for")
    shaped = [chunk for batch in batches for chunk in chunks.of(batch)]
    for chunk in shaped:
        chunk.model = "asked-for"
    expected = [
        json.loads(chunk.model_dump_json(exclude_none=True, exclude_unset=True)) for chunk in shaped
    ]
    for event in expected:
        for choice in event["choices"]:
            choice.setdefault("finish_reason", None)  # LiteLLM leaves out what is null
    written = [frame for batch in batches for frame in frames.of(batch)]
    assert [*map(without_ids, events(written))] == [*map(without_ids, expected)]
    said = [piece.event for batch in batches for piece in batch]
    spoken = (ContentDelta, ReasoningDelta, ArgumentsDelta)
    texts = [event.text for event in said if isinstance(event, spoken)]
    assert "".join(frame.text for frame in written) == "".join(texts)


def test_a_batch_is_one_frame() -> None:
    frames = Frames(Chunks(ANSWER), "m")
    pieces = [Piece(0, ContentDelta("a")), Piece(0, ReasoningDelta("b")), Piece(1, Finish("stop"))]
    assert len(list(frames.of(pieces))) == 1
    assert list(frames.of([Piece(0, CallEnd(0))])) == []


def test_a_frame_has_the_lines_that_every_reader_sees() -> None:
    """Some split decoded text, where Unicode knows more ends of lines than server-sent events."""
    said = "a\u2028b\u2029c\x85d\x0be"
    [frame] = Frames(Chunks(ANSWER), "m").of([Piece(0, ContentDelta(said)), Piece(1, CallEnd(0))])
    lines = [line for line in frame.decode().splitlines() if line]
    texts = [json.loads(line.removeprefix("data: "))["choices"][0]["delta"] for line in lines]
    assert "".join(delta.get("content") or "" for delta in texts) == said


def test_the_usage_is_a_frame() -> None:
    [event] = events([Frames(Chunks(ANSWER), "m").usage()])
    assert (event["model"], event["choices"]) == ("m", [])
    assert event["usage"]["completion_tokens"] == 2


# --- where nobody reads chunks --------------------------------------------------------------------


def passed_on(**changes: Any) -> dict[str, Any]:
    body = {"model": "m", "stream": True}
    return {
        "proxy_server_request": {
            "url": changes.pop("url", "http://h/v1/chat/completions?x=1"),
            "method": "POST",
            "body": changes.pop("body", body),
        },
        "metadata": {"model_group": "m", "original_model_group": "m", "attempted_fallbacks": 0}
        | changes,
    }


def test_the_proxys_own_stream_is_bytes() -> None:
    assert unread.unread(passed_on()) == unread.Unread("m", hides_usage=False)


def test_usage_that_the_client_did_not_ask_for_is_hidden() -> None:
    body = {"model": "m", "_litellm_strip_stream_usage": True}
    found = unread.unread(passed_on(body=body))
    assert found is not None
    assert found.hides_usage


@pytest.mark.parametrize(
    "changes",
    [
        {"url": "http://h/v1/messages"},
        {"url": "http://h/v1/responses"},
        {"model_group": "another"},
        {"attempted_fallbacks": 1},
        {"body": {"model": "alias", "stream": True}},
        {"body": {"model": "m", "_litellm_client_requested_model": "alias"}},
        {unread.RETURN_RAW_MODEL_NAME_METADATA_KEY: True},
    ],
)
def test_others_stay_chunks(changes: dict[str, Any]) -> None:
    assert unread.unread(passed_on(**changes)) is None


def test_the_sdk_gets_chunks() -> None:
    """litellm.acompletion in somebody's own program: there is no proxy."""
    assert unread.unread({"metadata": {}}) is None


@pytest.mark.parametrize(
    "seen_by",
    [
        {"has_guardrail": True},
        {"has_streaming_chunk_override": True},
        {"iterator_overrides": ((object(), "override"),)},
    ],
)
def test_a_callback_that_reads_chunks_gets_them(
    monkeypatch: pytest.MonkeyPatch, seen_by: dict[str, Any]
) -> None:
    nobody = {"iterator_overrides": (), "has_streaming_chunk_override": False}
    nobody |= {"has_guardrail": False}
    assert all(hasattr(ProxyLogging.callback_capabilities(), name) for name in nobody)
    found = SimpleNamespace(**(nobody | seen_by))
    monkeypatch.setattr(ProxyLogging, "callback_capabilities", lambda: found)
    assert unread.unread(passed_on()) is None


def test_litellm_writes_our_bytes_as_they_are() -> None:
    source = inspect.getsource(proxy_server.async_data_generator)
    assert "elif isinstance(chunk, bytes)" in source
    assert 'chunk.startswith(("data:", "event:", ":"))' in source
    hook = inspect.getsource(ResponsesIDSecurity.async_post_call_streaming_iterator_hook)
    assert "isinstance(chunk, BaseLiteLLMOpenAIResponseObject)" in hook
    assert 'get("model_id")' in inspect.getsource(proxy_server._make_keepalive_resolver)
    bill = inspect.getsource(common_request_processing._bill_partial_streamed_spend_on_disconnect)
    assert 'getattr(response, "chunks", None)' in bill


def test_what_was_said_is_kept_for_billing() -> None:
    chunks: list[ModelResponseStream] = []
    for text in ("one ", "two"):
        frame = Frame(b"data: {}\n\n")
        frame.text = text
        unread.note_for_billing(chunks, frame, "m")
    [kept] = chunks
    assert kept.choices[0].delta.content == "one two"


async def test_a_stream_of_the_gateway_goes_out_as_frames(
    gateway: str, backend: FakeBackend
) -> None:
    """What is yielded once is one chunk of HTTP: with chunks of LiteLLM's each would hold one
    event; the first frame holds the role and the first text."""
    backend.scripts["frames"] = Script(("word " * 60,))
    messages = [{"role": "user", "content": "frames"}]
    body = json.dumps({"model": "tiny", "messages": messages, "stream": True}).encode()
    url = urlsplit(gateway)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        + f"Authorization: Bearer {MASTER_KEY}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    headers = await reader.readuntil(b"\r\n\r\n")
    assert b" 200 " in headers
    size = int(await reader.readline(), 16)
    first = await reader.readexactly(size)
    writer.close()
    assert len(events([first])) >= 2
