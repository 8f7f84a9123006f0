"""Logprobs, stop strings and usage of an answer."""

from __future__ import annotations

import uuid
from typing import Any

import httpx
import openai
import pytest

from tests import tools
from tests.gateway.requests import answers
from toolgate_core import wire
from toolgate_proxy.backend_client.event_stream import SseParser

USER = [{"role": "user", "content": "Tell me a story."}]


def test_logprobs_spell_the_content_in_both_forms(
    client: openai.OpenAI, common: dict[str, Any]
) -> None:
    request = {**common, "messages": USER, "logprobs": True, "top_logprobs": 2, "max_tokens": 40}
    request |= {"reasoning_effort": "none"}
    whole = client.chat.completions.create(**request).choices[0]
    assert whole.logprobs is not None
    tokens = whole.logprobs.content or []
    spelled = b"".join(bytes(token.bytes or []) for token in tokens)
    assert spelled.decode(errors="replace").rstrip("�") == (whole.message.content or "").rstrip("�")
    assert all(len(token.top_logprobs) == 2 and token.logprob <= 0 for token in tokens)
    chunks = [*client.chat.completions.create(**request, stream=True)]
    streamed = [
        token
        for chunk in chunks
        for choice in chunk.choices
        if choice.logprobs is not None
        for token in choice.logprobs.content or []
    ]
    assert [token.token for token in streamed] == [token.token for token in tokens]


def test_a_stop_string_ends_the_content_in_both_forms(
    client: openai.OpenAI, common: dict[str, Any]
) -> None:
    request = {**common, "messages": USER, "reasoning_effort": "none", "logit_bias": {}}
    request |= {"max_tokens": 200, "extra_body": {"ignore_eos": True}}
    [full] = answers.from_whole(client.chat.completions.create(**request))
    assert full.content
    stop = full.content[60:63]
    [whole] = answers.whole(client, {**request, "stop": [stop]})
    assert answers.streamed(client, {**request, "stop": [stop]}) == [whole]
    assert whole.finish_reason == "stop"
    assert whole.content == full.content[: full.content.index(stop)]


def test_usage_counts_the_tokens_of_a_repeated_prompt_as_cached(
    client: openai.OpenAI, common: dict[str, Any]
) -> None:
    messages = [{"role": "user", "content": "word " * 400}]
    request = {**common, "messages": messages, "tools": tools.ALL, "max_tokens": 4}
    usages = [client.chat.completions.create(**request).usage for _ in range(2)]
    assert usages[0]
    assert usages[1]
    assert usages[0].prompt_tokens == usages[1].prompt_tokens > 400
    assert usages[1].prompt_tokens_details
    assert (usages[1].prompt_tokens_details.cached_tokens or 0) >= 128


THOUGHT = "The light is in the kitchen"
CALL: Any = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'},
}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_of_the_turn_reaches_the_prompt(
    client: openai.OpenAI, common: dict[str, Any], field: str
) -> None:
    """vLLM reads one of the two fields."""
    turn = {"role": "assistant", "content": None, field: THOUGHT, "tool_calls": [CALL]}
    request = {**common, "messages": [*USER, turn, RESULT], "max_tokens": 4}
    extra = {"extra_body": {**request.pop("extra_body", {}), "return_prompt_text": True}}
    answer = client.chat.completions.create(**request, **extra)
    assert f"<think>\n{THOUGHT}\n</think>" in str(answer.model_extra["prompt_text"])


def test_batches_have_the_tokens_of_the_same_response(backend: httpx.Client, model: str) -> None:
    sampling = wire.Sampling(max_tokens=60, temperature=0.0, logprobs=1, n=2, ignore_eos=True)
    events: list[list[wire.TokensEvent]] = []
    for batched in (None, True):
        request = wire.GenerateRequest(
            request_id=uuid.uuid4().hex,
            model=model,
            prompt=wire.ChatPrompt(messages=tuple(USER)),
            sampling=sampling,
            batched=batched,
        )
        content = request.model_dump_json(exclude_none=True)
        response = backend.post("/generate", content=content).raise_for_status()
        payloads = SseParser().feed(response.content)
        sent = wire.stream_events.validate_json(b"[" + b",".join(payloads) + b"]")
        assert isinstance(sent[-1], wire.UsageEvent)
        assert sent[-1].completion_tokens == 120
        events.append([each for each in sent if isinstance(each, wire.TokensEvent)])
    single, joined = events
    assert len(joined) < len(single) / 2
    for choice in (0, 1):
        assert len(tokens(single, choice)) == 60
        assert tokens(joined, choice) == tokens(single, choice)


def tokens(events: list[wire.TokensEvent], choice: int) -> list[tuple[int, str, str]]:
    return [
        (token, text, logprob.token)
        for event in events
        if event.choice == choice
        for token, text, logprob in zip(event.ids, event.texts, event.logprobs or (), strict=True)
    ]
