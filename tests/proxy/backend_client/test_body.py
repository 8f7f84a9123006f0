"""The largest honest responses are within their bound."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.servers.fake_backend import INFO
from toolgate_core import wire
from toolgate_proxy.backend_client.body import MAX_WHOLE, bound_of, fitting
from toolgate_proxy.json_values import exceeds

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
    assert bound_of(large, INFO).body.bytes > MAX_WHOLE.bytes


def test_a_whole_response_has_an_absolute_bound() -> None:
    bound = bound_of(asked(False, n=128, logprobs=20), INFO)
    assert bound.body == MAX_WHOLE
    assert bound_of(asked(True, n=128, logprobs=20), INFO).body.bytes > MAX_WHOLE.bytes
