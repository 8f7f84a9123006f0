"""Usage of other providers' responses, read on their way to the client."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolgate_proxy.context import RequestContext
from toolgate_proxy.keys.limit_kinds import Tokens
from toolgate_proxy.limits import provider_usage
from toolgate_proxy.limits.provider_usage import ProviderUsage, tokens_of

RESERVED = Tokens(20, 900)


def read(*parts: bytes, stream: bool = True) -> RequestContext:
    """The context after a response in those parts."""
    context = RequestContext(uncounted=Tokens(RESERVED.input) if stream else RESERVED)
    usage = ProviderUsage(context, b"text/event-stream; x" if stream else b"application/json")
    for at, part in enumerate(parts, 1):
        usage.read(part, last=at == len(parts))
    return context


def sse(*events: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}, (10, 5)),
        ({"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}, (10, 5)),
        ({"prompt_tokens": 10, "total_tokens": 15}, (10, 5)),
        ({"prompt_tokens": 10, "total_tokens": 10}, (10, 0)),
        ({"input_tokens": 3, "cache_read_input_tokens": 7, "output_tokens": 5}, (10, 5)),
        # LiteLLM adds Anthropic's fields to those of OpenAI, which include cached tokens.
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "cache_read_input_tokens": 7},
            (10, 5),
        ),
        ({"total_tokens": 7}, (0, 7)),
        ({"prompt_tokens": -50, "completion_tokens": 5}, (0, 5)),
        ({"prompt_tokens": 2**70, "completion_tokens": 5}, (0, 5)),
        ({"prompt_tokens": "9", "completion_tokens": None}, None),
        ({"total_tokens": 0}, None),
        ({}, None),
    ],
)
def test_usage_in_the_form_of_each_api(
    usage: dict[str, Any], tokens: tuple[int, int] | None
) -> None:
    assert tokens_of(usage) == (None if tokens is None else Tokens(*tokens))


USAGE = {"prompt_tokens": 10, "completion_tokens": 5}


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_stream_is_estimated_until_its_usage_comes(size: int) -> None:
    text = {"choices": [{"index": 0, "delta": {"content": "x" * 300}}]}
    data = b": comment\n\n" + sse(text)
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    context = read(*parts)
    assert not context.counted
    assert context.used_tokens().input == RESERVED.input
    assert 60 < context.used_tokens().output <= 300
    counted = read(*parts, sse({"choices": [], "usage": USAGE}), b"data: [DONE]\n\n")
    assert counted.used_tokens() == Tokens(10, 5)


def test_a_stream_of_anthropics_api_has_its_prompt_at_the_beginning() -> None:
    began = {
        "type": "message_start",
        "message": {"usage": {"input_tokens": 12, "output_tokens": 1}},
    }
    delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x" * 90}}
    context = read(sse(began, delta))
    assert not context.counted
    assert context.used_tokens().input == 12
    assert context.used_tokens().output >= 20


def test_a_stream_counts_the_usage_that_its_events_report_together() -> None:
    began = {"type": "message_start", "message": {"usage": {"input_tokens": 472}}}
    ends = [{"type": "message_delta", "usage": {"output_tokens": at}} for at in (1, 89)]
    assert read(sse(began), sse(*ends)).used_tokens() == Tokens(472, 89)
    cumulative = [{"usage": {"prompt_tokens": 10, "completion_tokens": at}} for at in (1, 300)]
    assert read(sse(*cumulative)).used_tokens() == Tokens(10, 300)


def test_usage_that_litellm_has_counted_is_not_replaced() -> None:
    context = RequestContext(uncounted=Tokens(20, 900))
    context.note_tokens(7, 8)
    ProviderUsage(context, b"application/json").read(
        json.dumps({"usage": USAGE}).encode(), last=True
    )
    assert context.used_tokens() == Tokens(7, 8)


def test_a_whole_response_counts_its_usage_or_the_reservation() -> None:
    body = json.dumps({"choices": [], "usage": USAGE}).encode()
    assert read(body[:9], body[9:], stream=False).used_tokens() == Tokens(10, 5)
    assert read(b"{}", stream=False).used_tokens() == RESERVED
    assert read(b"no JSON", stream=False).used_tokens() == RESERVED
    assert read(b"[1]", stream=False).used_tokens() == RESERVED


def test_memory_for_a_response_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_usage, "MAX_BYTES", 1000)
    assert read(b"x" * 900, b"x" * 900, b"{}", stream=False).used_tokens() == RESERVED
    data = sse({"choices": [], "usage": USAGE})
    assert not read(b"data: " + b"x" * 2000, data).counted
    assert read(*[sse({"choices": []})] * 100, data).counted
