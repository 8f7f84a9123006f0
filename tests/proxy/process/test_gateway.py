"""A running gateway with the OpenAI SDK in front of it and a scripted backend behind it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import openai
import pytest

from tests.support.apis.sdk_requests import LONG, SCRIPTS, WEATHER, asked, streamed, whole
from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.script import Script


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("name", SCRIPTS)
async def test_stream_equals_whole_response(
    client: openai.AsyncOpenAI, backend: FakeBackend, name: str, n: int
) -> None:
    backend.scripts |= SCRIPTS | {"other": Script(("Something else",))}
    if n == 2:
        first = SCRIPTS[name]
        second = Script(("Another choice, a longer one.",)).texts
        backend.scripts[name] = Script(
            first.texts + second, finish=first.finish, reasoning_open=first.reasoning_open
        )
        if first.reasoning_open:
            backend.scripts[name].texts = (first.texts[0], "hm</think>\n\nAnother")
    params = asked(name, tools=[WEATHER], n=n, logprobs=True, top_logprobs=2)
    answer, usage = await whole(client, **params)
    assert sorted(answer) == list(range(n))
    told, told_usage = await streamed(client, **params)
    assert told == answer
    for field in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert told_usage[field] == usage[field] > 0
    assert told_usage["prompt_tokens_details"]["cached_tokens"] == 3


async def test_long_call_is_streamed_in_parts(
    client: openai.AsyncOpenAI, backend: FakeBackend
) -> None:
    backend.scripts |= SCRIPTS
    stream = await client.chat.completions.create(**asked("call", tools=[WEATHER]), stream=True)
    parts = [
        part.function.arguments or ""
        async for chunk in stream
        for part in (chunk.choices[0].delta.tool_calls or [])
        if part.function
    ]
    assert json.loads("".join(parts)) == LONG
    assert len(parts) > 2


async def test_no_chunk_has_usage_without_include_usage(
    client: openai.AsyncOpenAI, backend: FakeBackend
) -> None:
    backend.scripts |= SCRIPTS
    stream = await client.chat.completions.create(**asked("content"), stream=True)
    chunks = [chunk async for chunk in stream]
    assert all(chunk.choices and not chunk.usage for chunk in chunks)


async def test_finish_reasons_of_calls(client: openai.AsyncOpenAI, backend: FakeBackend) -> None:
    backend.scripts |= SCRIPTS
    named = {"type": "function", "function": {"name": "get_weather"}}
    for choice, reason in (("auto", "tool_calls"), ("required", "tool_calls"), (named, "stop")):
        params = asked("call", tools=[WEATHER], tool_choice=choice)
        (answer, _), (told, _) = await whole(client, **params), await streamed(client, **params)
        assert answer[0][3] == told[0][3] == reason
    enforcement = backend.requests[-1].enforcement
    assert enforcement is not None
    assert (enforcement.choice, enforcement.max_calls) == ("required", 1)


@pytest.mark.parametrize("stream", [True, False])
async def test_stop_string_ends_the_backend_request(
    client: openai.AsyncOpenAI, backend: FakeBackend, stream: bool
) -> None:
    backend.scripts["wordy"] = Script(("One two three four " * 50,), pause=0.01)
    ask = streamed if stream else whole
    answer, usage = await ask(client, **asked("wordy", stop=["three"], n=2))
    assert [answer[at][0] for at in (0, 1)] == ["One two ", "One two "]
    assert usage["completion_tokens"] == 2 * 5
    assert await backend.idle_within(0.5)
    assert backend.left


async def test_backend_request_has_sampling_and_tools(
    client: openai.AsyncOpenAI, backend: FakeBackend
) -> None:
    backend.scripts |= SCRIPTS
    await client.chat.completions.create(
        **asked("reasoning", tools=[WEATHER], parallel_tool_calls=False, user="u", seed=4),
        temperature=0.5,
        max_completion_tokens=99,
        reasoning_effort="low",
        extra_body={"top_k": 7, "priority": 2, "chat_template_kwargs": {"style": "short"}},
    )
    sent = backend.requests[-1]
    assert sent.model == "tiny"
    assert not sent.stream
    assert (sent.sampling.top_k, sent.sampling.max_tokens, sent.sampling.seed) == (7, 99, 4)
    assert sent.priority == 2
    assert sent.prompt.kind == "chat"
    assert sent.prompt.tools == (WEATHER,)
    assert sent.prompt.template_kwargs == {
        "style": "short",
        "reasoning_effort": "low",
        "enable_thinking": True,
    }
    assert sent.enforcement is not None
    assert (sent.enforcement.reasoning, sent.enforcement.max_calls) == ("on", 1)


OTHER_WEATHER = {"type": "function", "function": {"name": WEATHER["function"]["name"]}}
REFUSED = [
    (
        {
            "tools": [WEATHER],
            "tool_choice": {"type": "function", "function": {"name": "no"}},
        },
        "unknown_tool",
        "tool_choice",
    ),
    ({"tools": [WEATHER, OTHER_WEATHER]}, "invalid_tools", "tools[1].function.name"),
    ({"tool_choice": "required"}, "invalid_tools", "tools"),
    ({"temperature": "hot"}, "invalid_request", "temperature"),
    ({"stop": ["a"] * 65}, "invalid_request", "stop"),
    ({"use_beam_search": True}, "unsupported_parameter", "use_beam_search"),
    ({"response_format": {"type": "yaml"}}, "invalid_request", "response_format.type"),
    ({"functions": [{"name": "x"}], "tools": []}, "unsupported_parameter", "functions"),
    (
        {
            "tools": [WEATHER],
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"name": "no"}]},
            },
        },
        "unknown_tool",
        "tool_choice",
    ),
    (
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "x", "schema": {"type": "object", "not": 3}},
            }
        },
        "schema_not_enforceable",
        "response_format.json_schema.schema",
    ),
    ({"no_such_thing": 1}, "unsupported_parameter", "no_such_thing"),
    ({"messages": "hello"}, "invalid_request", "messages"),
    ({"messages": [3]}, "invalid_request", "messages[0]"),
    ({"tools": "x"}, "invalid_request", "tools"),
    (
        {
            "tools": [
                WEATHER,
                {"type": "function", "function": {"name": "refused", "parameters": {"not": {}}}},
            ]
        },
        "schema_not_enforceable",
        "tools[1].function.parameters",
    ),
    ({"messages": [{"role": "user", "content": "long"}]}, "context_length_exceeded", "messages"),
]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("params", "code", "param"), REFUSED)
async def test_invalid_requests_return_their_error(
    http: httpx.AsyncClient,
    backend: FakeBackend,
    params: dict[str, Any],
    code: str,
    param: str,
    stream: bool,
) -> None:
    backend.scripts |= SCRIPTS | {
        "long": Script(
            ("",),
            error_status=400,
            error={"message": "Too long.", "code": "context_length_exceeded", "param": "messages"},
        )
    }
    response = await http.post(
        "/v1/chat/completions", json=asked("content", stream=stream) | params
    )
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert (error["code"], error["param"]) == (code, param)
    assert error["type"] == "invalid_request_error"
    assert "litellm" not in error["message"].lower()
    if code == "schema_not_enforceable":
        assert error["pointer"] == "/not"


async def test_concurrent_responses_do_not_mix(
    client: openai.AsyncOpenAI, backend: FakeBackend
) -> None:
    texts = {f"s{at}": f"Answer number {at}, and no other." for at in range(24)}
    backend.scripts |= {name: Script((text,), pause=0.001) for name, text in texts.items()}
    answers = await asyncio.gather(
        *((streamed if at % 2 else whole)(client, **asked(f"s{at}")) for at in range(24))
    )
    assert [answer[0][0] for answer, _ in answers] == list(texts.values())


async def test_unknown_model_returns_404(http: httpx.AsyncClient) -> None:
    response = await http.post("/v1/chat/completions", json=asked("content") | {"model": "nope"})
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"
