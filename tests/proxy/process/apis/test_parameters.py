"""Parameters on their way to the backend, and response fields beyond OpenAI's."""

from __future__ import annotations

import uuid
from typing import Any

import httpx
import openai

from tests.support.apis.sdk_requests import SCRIPTS, WEATHER, asked
from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.script import Script, call

FUNCTION = WEATHER["function"]


async def test_vllm_parameters_reach_the_backend(
    client: openai.AsyncOpenAI, backend: FakeBackend
) -> None:
    backend.scripts |= SCRIPTS
    await client.chat.completions.create(
        **asked("content", tools=[WEATHER], n=2, temperature=0, logit_bias={"5": 1}),
        extra_body={
            "bad_words": ["no"],
            "stop_token_ids": [77],
            "min_tokens": 3,
            "ignore_eos": True,
            "min_p": 0.1,
            "repetition_penalty": 1.2,
            "reasoning_budget": 40,
            "toolgate": {"call_tokens": 30},
            "cache_salt": "pepper",
            "priority": 3,
            "add_generation_prompt": False,
            "documents": [{"text": "d"}],
        },
    )
    sent = backend.requests[-1]
    assert sent.sampling.model_dump(exclude_defaults=True) == {
        "n": 2,
        "temperature": 0.0,
        "bad_words": ("no",),
        "stop_token_ids": (77,),
        "min_tokens": 3,
        "ignore_eos": True,
        "min_p": 0.1,
        "repetition_penalty": 1.2,
        "logit_bias": {5: 1.0},
    }
    assert sent.enforcement is not None
    assert (sent.enforcement.reasoning_budget, sent.enforcement.call_tokens) == (40, 30)
    assert sent.priority == 3
    assert sent.prompt.kind == "chat"
    assert sent.prompt.template_kwargs == {
        "add_generation_prompt": False,
        "documents": [{"text": "d"}],
    }


async def test_allowed_tools_restrict_the_choice(
    client: openai.AsyncOpenAI, backend: FakeBackend
) -> None:
    backend.scripts |= SCRIPTS
    other = {"type": "function", "function": {"name": "other"}}
    allowed = {"mode": "required", "tools": [{"type": "function", "function": FUNCTION}]}
    choice = {"type": "allowed_tools", "allowed_tools": allowed}
    await client.chat.completions.create(
        **asked("call", tools=[other, WEATHER]),
        tool_choice=choice,  # type: ignore[arg-type]
    )
    sent = backend.requests[-1]
    assert sent.enforcement is not None
    assert sent.enforcement.choice == "required"
    assert [candidate.name for candidate in sent.enforcement.candidates] == ["get_weather"]
    assert sent.prompt.kind == "chat"
    assert sent.prompt.tools == (other, WEATHER)


async def test_legacy_functions_return_a_function_call(
    client: openai.AsyncOpenAI, backend: FakeBackend
) -> None:
    backend.scripts |= SCRIPTS
    asked_for = asked("call", functions=[FUNCTION])
    for choice, reason in (("auto", "function_call"), ({"name": "get_weather"}, "stop")):
        answer = await client.chat.completions.create(**asked_for, function_call=choice)
        message = answer.choices[0].message
        assert answer.choices[0].finish_reason == reason
        assert message.tool_calls is None
        assert message.function_call is not None
        assert message.function_call.name == "get_weather"
        stream = await client.chat.completions.create(
            **asked_for, function_call=choice, stream=True
        )
        name, arguments, reasons = "", "", set()
        async for chunk in stream:
            delta = chunk.choices[0].delta
            reasons.add(chunk.choices[0].finish_reason)
            assert not delta.tool_calls
            if delta.function_call:
                name += delta.function_call.name or ""
                arguments += delta.function_call.arguments or ""
        assert (name, arguments) == ("get_weather", message.function_call.arguments)
        assert reasons == {None, reason}
    sent = backend.requests[-1].enforcement
    assert sent is not None
    assert (sent.choice, sent.max_calls) == ("required", 1)


async def test_legacy_conversation_is_accepted(
    client: openai.AsyncOpenAI, backend: FakeBackend
) -> None:
    backend.scripts |= {"42": Script(("It is sunny",))}
    messages: list[Any] = [
        {"role": "user", "content": "weather?"},
        {
            "role": "assistant",
            "content": None,
            "function_call": {"name": "get_weather", "arguments": '{"city": "Rome"}'},
        },
        {"role": "function", "name": "get_weather", "content": "sunny"},
        {"role": "user", "content": "42"},
    ]
    await client.chat.completions.create(model="tiny", messages=messages, functions=[FUNCTION])
    prompt = backend.requests[-1].prompt
    assert prompt.kind == "chat"
    _, said, told, _ = prompt.messages
    [made] = said["tool_calls"]
    assert made["function"] == {"name": "get_weather", "arguments": '{"city": "Rome"}'}
    assert told["role"] == "tool"
    assert told["tool_call_id"] == made["id"]


async def test_responses_have_the_fields_beyond_openai(
    http: httpx.AsyncClient, backend: FakeBackend
) -> None:
    backend.scripts |= SCRIPTS | {"cut": Script((call("get_weather", {"city": "x" * 60})[:70],))}
    backend.scripts["cut"].finish = "length"
    whole = await http.post(
        "/v1/chat/completions",
        json=asked("cut", tools=[WEATHER], return_token_ids=True, logprobs=True),
    )
    body = whole.json()
    [choice] = body["choices"]
    assert body["prompt_token_ids"] == list(range(11))
    assert choice["finish_reason"] == "length"
    assert choice["toolgate"] == {"last_call": "cut"}
    assert len(choice["token_ids"]) == body["usage"]["completion_tokens"]
    [told] = choice["logprobs"]["tool_calls"]
    spelled = "".join(token["token"] for token in told["content"])
    assert "<tool_call>" + spelled == call("get_weather", {"city": "x" * 60})[:70]
    stopped = await http.post("/v1/chat/completions", json=asked("content", stop=["the"]))
    assert stopped.json()["choices"][0]["stop_reason"] == "the"


async def test_continuous_usage_is_in_every_chunk(
    client: openai.AsyncOpenAI, backend: FakeBackend
) -> None:
    backend.scripts |= SCRIPTS
    options: Any = {"include_usage": True, "continuous_usage_stats": True}
    stream = await client.chat.completions.create(
        **asked("content"), stream=True, stream_options=options
    )
    chunks = [chunk async for chunk in stream]
    counted = [chunk.usage.completion_tokens for chunk in chunks if chunk.usage]
    assert len(counted) == len(chunks)
    assert counted == sorted(counted)
    assert chunks[-1].choices == []


async def test_last_message_can_be_continued(
    client: openai.AsyncOpenAI, backend: FakeBackend
) -> None:
    backend.scripts["Once upon"] = Script((" a time",))
    answer = await client.chat.completions.create(
        model="tiny",
        messages=[
            {"role": "user", "content": "A story."},
            {"role": "assistant", "content": "Once upon"},
        ],
        extra_body={"continue_final_message": True, "echo": True},
    )
    assert answer.choices[0].message.content == "Once upon a time"
    prompt = backend.requests[-1].prompt
    assert prompt.kind == "chat"
    assert prompt.template_kwargs["continue_final_message"] is True


async def test_response_format_and_tools_go_together(
    client: openai.AsyncOpenAI, backend: FakeBackend
) -> None:
    backend.scripts["json"] = Script(('{"a": 1}',))
    fresh = uuid.uuid4().hex  # a name that no gateway has asked the backend for before
    properties = {"a": {"type": "integer"}, fresh: {"type": "integer"}}
    schema = {"type": "object", "properties": properties}
    response = await client.chat.completions.with_raw_response.create(
        **asked("json", tools=[WEATHER]),
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
    )
    assert response.parse().choices[0].message.content == '{"a": 1}'
    assert response.headers["x-toolgate-enforced"] == "full"
    sent = backend.requests[-1].enforcement
    assert sent is not None
    assert sent.content is not None
    assert sent.content in backend.loaded
    assert [candidate.name for candidate in sent.candidates] == ["get_weather"]
    source = next(source for source in backend.sources if source.key == sent.content)
    assert (source.name, source.parameters) == ("", schema)
