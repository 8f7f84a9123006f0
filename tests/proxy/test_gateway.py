"""The gateway as its clients meet it: LiteLLM's proxy in a process, the SDK before it, a scripted
backend behind it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from fake_backend import KEY, FakeBackend, Script, call
from gateway_process import MASTER_KEY

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
LONG = {"city": "the one by the river, behind the hills, whose name nobody can spell, not even I"}
SCRIPTS = {
    "content": Script(("Hello there, friend",)),
    "reasoning": Script(("<think>\nLet me see.\n</think>\n\nHello",)),
    "open reasoning": Script(("Let me see.\n</think>\n\nHello",), reasoning_open=True),
    "call": Script((call("get_weather", LONG),)),
    "content and calls": Script(
        ("I look.\n" + call("get_weather", LONG) + "\n" + call("get_weather", {"city": "é"}),)
    ),
    "cut call": Script((call("get_weather", LONG)[:70],), finish="length"),
    "cut content": Script(("Hello",), finish="length"),
    "nothing": Script(("",)),
}


def asked(script: str, **params: Any) -> dict[str, Any]:
    return {"model": "tiny", "messages": [{"role": "user", "content": script}], **params}


def signature(choice: Any) -> tuple[Any, ...]:
    message = choice["message"]
    calls = [part["function"] for part in message.get("tool_calls") or []]
    logprobs = [token["token"] for token in (choice.get("logprobs") or {}).get("content") or []]
    return (
        message.get("content") or "",
        message.get("reasoning_content"),
        [(part["name"], part["arguments"]) for part in calls],
        choice["finish_reason"],
        logprobs,
    )


async def whole(client: openai.AsyncOpenAI, **params: Any) -> tuple[dict[int, Any], Any]:
    response = (await client.chat.completions.create(**params)).model_dump()
    return {c["index"]: signature(c) for c in response["choices"]}, response["usage"]


async def streamed(client: openai.AsyncOpenAI, **params: Any) -> tuple[dict[int, Any], Any]:
    """The stream's answer, held to OpenAI's rules for chunks on the way."""
    stream = await client.chat.completions.create(
        **params, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk.model_dump(exclude_unset=True) async for chunk in stream]
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert {chunk["model"] for chunk in chunks} == {"tiny"}
    choices: dict[int, dict[str, Any]] = {}
    for chunk in chunks[:-1]:
        assert not chunk.get("usage")
        (shown,) = chunk["choices"]
        delta = shown["delta"]
        if shown["index"] not in choices:
            assert delta["role"] == "assistant"
            choices[shown["index"]] = {"message": {"tool_calls": []}, "finish_reason": None}
        choice = choices[shown["index"]]
        assert choice["finish_reason"] is None
        message = choice["message"]
        for name in ("content", "reasoning_content"):
            if delta.get(name) is not None:
                message[name] = (message.get(name) or "") + delta[name]
        for part in delta.get("tool_calls") or []:
            if part["index"] == len(message["tool_calls"]):
                assert part["id"]
                assert part["type"] == "function"
                message["tool_calls"].append({"function": dict(part["function"])})
            else:
                assert not part["function"].get("name")
                function = message["tool_calls"][part["index"]]["function"]
                function["arguments"] += part["function"]["arguments"]
        if shown.get("logprobs"):
            told = choice.setdefault("logprobs", {"content": []})
            told["content"] += shown["logprobs"]["content"]
        choice["finish_reason"] = shown.get("finish_reason")
    assert chunks[-1]["choices"] == []
    return {at: signature(choice) for at, choice in choices.items()}, chunks[-1]["usage"]


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("name", SCRIPTS)
async def test_a_stream_tells_what_the_whole_answer_tells(
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


async def test_a_long_call_arrives_in_parts(
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


async def test_without_include_usage_no_chunk_has_usage(
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
async def test_stop_strings_free_the_backend(
    client: openai.AsyncOpenAI, backend: FakeBackend, stream: bool
) -> None:
    backend.scripts["wordy"] = Script(("One two three four " * 50,), pause=0.01)
    ask = streamed if stream else whole
    answer, usage = await ask(client, **asked("wordy", stop=["three"], n=2))
    assert [answer[at][0] for at in (0, 1)] == ["One two ", "One two "]
    assert usage["completion_tokens"] == 2 * 5
    assert await backend.idle_within(0.5)
    assert backend.left


async def test_what_the_backend_is_asked(client: openai.AsyncOpenAI, backend: FakeBackend) -> None:
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


REFUSED = [
    (
        {
            "tools": [WEATHER],
            "tool_choice": {"type": "function", "function": {"name": "no"}},
        },
        "unknown_tool",
        "tool_choice",
    ),
    ({"tools": [WEATHER, WEATHER]}, "invalid_tools", "tools[1].function.name"),
    ({"tool_choice": "required"}, "invalid_tools", "tools"),
    ({"temperature": "hot"}, "invalid_request", "temperature"),
    ({"stop": ["a"] * 65}, "invalid_request", "stop"),
    ({"verbosity": "low"}, "unsupported_parameter", "verbosity"),
    ({"response_format": {"type": "yaml"}}, "unsupported_parameter", "response_format.type"),
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
async def test_refusals(
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


@pytest.mark.parametrize("stream", [True, False])
async def test_a_backend_that_is_down(http: httpx.AsyncClient, stream: bool) -> None:
    for _ in range(2):  # the second time too: the deployment is not locked out
        response = await http.post(
            "/v1/chat/completions", json=asked("content", stream=stream) | {"model": "down"}
        )
        assert response.status_code == 503
        assert int(response.headers["retry-after"]) > 0
        assert response.json()["error"]["code"] == "backend_unavailable"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("status", "error"),
    [(503, {"message": "Full.", "code": "backend_unavailable"}), (429, {"message": "Full."})],
)
async def test_a_backend_that_is_overloaded(
    http: httpx.AsyncClient,
    backend: FakeBackend,
    stream: bool,
    status: int,
    error: dict[str, Any],
) -> None:
    backend.scripts["full"] = Script(("",), error_status=status, error=error)
    response = await http.post("/v1/chat/completions", json=asked("full", stream=stream))
    assert response.status_code == 503
    assert int(response.headers["retry-after"]) > 0
    assert response.json()["error"]["code"] == "backend_unavailable"


@pytest.mark.parametrize(
    ("fault", "code"),
    [({"error_after": 3}, "enforcement_failed"), ({"break_after": 3}, "backend_failed")],
)
async def test_faults_in_mid_answer(
    client: openai.AsyncOpenAI, backend: FakeBackend, fault: dict[str, Any], code: str
) -> None:
    backend.scripts["bad"] = Script(("Hello there, my friend",), pause=0.01, **fault)
    texts: list[str] = []

    async def read() -> None:
        async for chunk in await client.chat.completions.create(**asked("bad"), stream=True):
            assert chunk.choices[0].finish_reason is None
            texts.append(chunk.choices[0].delta.content or "")

    with pytest.raises(openai.APIError) as failure:
        await read()
    assert "".join(texts) == "Hello the"
    assert failure.value.code == code
    with pytest.raises(openai.InternalServerError) as refused:
        await client.chat.completions.create(**asked("bad"))
    assert refused.value.status_code in (500, 502)


async def test_a_broken_call_is_never_passed_off_as_whole(
    client: openai.AsyncOpenAI, backend: FakeBackend
) -> None:
    backend.scripts["bad"] = Script((call("get_weather", '{"city": "Ro'),))

    async def read() -> list[Any]:
        stream = await client.chat.completions.create(**asked("bad", tools=[WEATHER]), stream=True)
        return [chunk async for chunk in stream]

    with pytest.raises(openai.APIError) as failure:
        await read()
    assert failure.value.code == "enforcement_failed"
    with pytest.raises(openai.InternalServerError) as refused:
        await client.chat.completions.create(**asked("bad", tools=[WEATHER]))
    assert refused.value.code == "enforcement_failed"


@pytest.mark.parametrize("hang_after", [0, 2])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_hangs_up_frees_the_backend(
    http: httpx.AsyncClient, backend: FakeBackend, stream: bool, hang_after: int
) -> None:
    backend.scripts["hang"] = Script(("Hello there",), hang_after=hang_after)
    with pytest.raises(httpx.ReadTimeout):
        await http.post("/v1/chat/completions", json=asked("hang", stream=stream), timeout=0.5)
    assert len(backend.requests) == 1
    assert await backend.idle_within(1.0)
    assert backend.left


async def test_lost_grammars_are_loaded_again(
    client: openai.AsyncOpenAI, backend: FakeBackend
) -> None:
    backend.scripts |= SCRIPTS
    params = asked("call", tools=[WEATHER])
    await whole(client, **params)
    backend.loaded.clear()
    backend.loads.clear()
    answer, _ = await whole(client, **params)
    assert answer[0][2][0][0] == "get_weather"
    assert backend.loads == [("get_weather",)]


async def test_requests_at_once_do_not_mix(
    client: openai.AsyncOpenAI, backend: FakeBackend
) -> None:
    texts = {f"s{at}": f"Answer number {at}, and no other." for at in range(24)}
    backend.scripts |= {name: Script((text,), pause=0.001) for name, text in texts.items()}
    answers = await asyncio.gather(
        *((streamed if at % 2 else whole)(client, **asked(f"s{at}")) for at in range(24))
    )
    assert [answer[0][0] for answer, _ in answers] == list(texts.values())


async def test_keys(gateway: str, http: httpx.AsyncClient) -> None:
    for headers in ({}, {"Authorization": "Bearer sk-wrong"}):
        async with httpx.AsyncClient(base_url=gateway, headers=headers) as stranger:
            response = await stranger.post("/v1/chat/completions", json=asked("content"))
        assert response.status_code == 401
        assert response.json()["error"]["code"] == "invalid_api_key"
    response = await http.get("/v1/models")
    assert [model["id"] for model in response.json()["data"]] == ["tiny", "down"]


async def test_an_unknown_model(http: httpx.AsyncClient) -> None:
    response = await http.post("/v1/chat/completions", json=asked("content") | {"model": "nope"})
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"


async def test_no_key_is_written_to_the_log(
    http: httpx.AsyncClient, backend: FakeBackend, gateway_log: Path
) -> None:
    backend.scripts |= SCRIPTS
    await http.post("/v1/chat/completions", json=asked("content"))
    await http.post("/v1/chat/completions", json=asked("content") | {"model": "down"})
    log = gateway_log.read_text(errors="replace")
    assert log
    assert MASTER_KEY not in log
    assert KEY not in log
