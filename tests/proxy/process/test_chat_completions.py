"""Chat completions of a running gateway: on its own route, and where LiteLLM's handler answers."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import httpx
import pytest

from tests.proxy.process.kit import BOTH_ROUTES, CHAT, ROWS
from tests.support.apis.sdk_requests import SCRIPTS, WEATHER, asked, streamed, whole
from tests.support.grammars.prewarm_tools import entry
from tests.support.servers.fake_backend import INFO
from tests.support.servers.script import Script, call
from tests.support.waiting import until
from toolgate_core.tools import parse_tools
from toolgate_proxy.grammars.service import grammar_key

pytestmark = BOTH_ROUTES


@pytest.mark.parametrize("name", SCRIPTS)
async def test_stream_equals_whole_response(client, backend, name):
    backend.scripts |= SCRIPTS
    params = asked(name, tools=[WEATHER], n=2, logprobs=True, top_logprobs=2)
    answer, usage = await whole(client, **params)
    assert sorted(answer) == [0, 1]
    told, told_usage = await streamed(client, **params)
    assert told == answer
    for field in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert told_usage[field] == usage[field] > 0
    assert told_usage["prompt_tokens_details"]["cached_tokens"] == 3


async def test_usage_is_in_the_chunks_that_are_asked_for_it(client, backend):
    backend.scripts |= SCRIPTS
    options: Any = {"include_usage": True, "continuous_usage_stats": True}
    for more in ({}, {"stream_options": options}):
        stream = await client.chat.completions.create(**asked("content", **more), stream=True)
        chunks = [chunk async for chunk in stream]
        counted = [chunk.usage.completion_tokens for chunk in chunks if chunk.usage]
        assert len(counted) == (len(chunks) if more else 0)
        assert counted == sorted(counted)
        assert bool(chunks[-1].choices) != bool(more)


async def test_finish_reasons_of_calls(client, backend):
    backend.scripts |= SCRIPTS
    named = {"type": "function", "function": {"name": "get_weather"}}
    for choice, reason in (("auto", "tool_calls"), ("required", "tool_calls"), (named, "stop")):
        params = asked("call", tools=[WEATHER], tool_choice=choice)
        (answer, _), (told, _) = await whole(client, **params), await streamed(client, **params)
        assert answer[0][3] == told[0][3] == reason
    enforcement = backend.requests[-1].enforcement
    assert enforcement is not None
    assert (enforcement.choice, enforcement.max_calls) == ("required", 1)


@pytest.mark.parametrize("ask", [streamed, whole])
async def test_stop_string_ends_the_backend_request(client, backend, ask):
    backend.scripts["wordy"] = Script(("One two three four " * 50,), pause=0.01)
    answer, usage = await ask(client, **asked("wordy", stop=["three"], n=2))
    assert [answer[at][0] for at in (0, 1)] == ["One two ", "One two "]
    assert usage["completion_tokens"] == 2 * 5
    assert await backend.idle_within(5)
    assert backend.left


async def test_parameters_reach_the_backend(client, backend):
    backend.scripts |= SCRIPTS
    extra = {
        "bad_words": ["no"],
        "stop_token_ids": [77],
        "min_tokens": 3,
        "ignore_eos": True,
        "min_p": 0.1,
        "repetition_penalty": 1.2,
        "top_k": 7,
        "reasoning_budget": 40,
        "toolgate": {"call_tokens": 30},
        "priority": 3,
        "add_generation_prompt": False,
        "documents": [{"text": "d"}],
        "chat_template_kwargs": {"style": "short"},
    }
    await client.chat.completions.create(
        **asked("content", tools=[WEATHER], n=2, temperature=0, logit_bias={"5": 1}, seed=4),
        **{"parallel_tool_calls": False, "user": "u", "reasoning_effort": "low"},
        max_completion_tokens=99,
        extra_body=extra,
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
        "top_k": 7,
        "max_tokens": 99,
        "seed": 4,
        "logit_bias": {5: 1.0},
    }
    assert (sent.model, sent.priority) == ("tiny", 3)
    assert sent.enforcement is not None
    assert (sent.enforcement.reasoning_budget, sent.enforcement.call_tokens) == (40, 30)
    assert (sent.enforcement.reasoning, sent.enforcement.max_calls) == ("on", 1)
    assert sent.prompt.kind == "chat"
    assert sent.prompt.tools == (WEATHER,)
    assert sent.prompt.template_kwargs == {
        "add_generation_prompt": False,
        "documents": [{"text": "d"}],
        "style": "short",
        "reasoning_effort": "low",
        "enable_thinking": True,
    }


async def test_responses_have_the_fields_beyond_openai(http, backend):
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


RECEIPT = re.compile(r"(known|new); n=(\d+)")


async def told(http: httpx.AsyncClient, *names: str, stream: bool) -> tuple[str, int]:
    """Whether the grammars of the header were known, and their number."""
    schema = {"parameters": {"type": "object"}}
    tools = [{"type": "function", "function": {"name": name, **schema}} for name in names]
    answer = await http.post(CHAT, json=asked(tools=tools, stream=stream))
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-toolgate-enforced"] == "full"
    words = ("cost", "discount", "margin", "spend", "budget")  # the model has no prices
    assert not [name for name in answer.headers if any(each in name for each in words)]
    match = RECEIPT.fullmatch(answer.headers["x-toolgate-grammar"])
    assert match
    return match[1], int(match[2])


@pytest.mark.parametrize("stream", [False, True])
async def test_header_says_whether_a_grammar_is_new(http, backend, redis_of_gateway, stream):
    one, two = f"tier_a{stream}", f"tier_b{stream}"
    assert await told(http, one, stream=stream) == ("new", 1)
    assert await told(http, one, stream=stream) == ("known", 1)
    assert await told(http, one, two, stream=stream) == ("new", 2)
    key = grammar_key(parse_tools([entry(one)])[0], INFO)
    await until(lambda: redis_of_gateway.client.exists(f"toolgate:verdict:{key}"))
    backend.forget()
    assert await told(http, one, stream=stream) == ("known", 1)
    metrics = (await http.get("/toolgate/metrics")).text
    for expected in (
        r'toolgate_grammars_total\{verdict="new"\} \d',
        r'toolgate_grammars_total\{verdict="known"\} \d',
        r"toolgate_redis_breaker_open 0",
    ):
        assert re.search(expected, metrics), expected


async def test_enforced_header_is_none_without_tools(http, backend):
    for body, enforced in ((asked(), "none"), (asked(stream=True), "none"),
                           (asked(tools=[WEATHER], tool_choice="none"), "full")):  # fmt: skip
        answer = await http.post(CHAT, json=body)
        assert answer.headers["x-toolgate-enforced"] == enforced
        assert "x-toolgate-grammar" not in answer.headers
    for response in (
        await http.post(CHAT, json=asked(temperature="hot")),
        await http.get("/v1/models"),
    ):
        assert not [name for name in response.headers if name.startswith("x-toolgate")]


async def test_a_safe_request_id_is_kept_and_sent_to_the_backend(http, backend):
    for given in ("my-request.7", None, "no\tgood", "x" * 200):
        headers = {"x-request-id": given} if given else {}
        for stream in (False, True):
            response = await http.post(CHAT, json=asked(stream=stream), headers=headers)
            told = response.headers["x-request-id"]
            assert (told == given) is (given == "my-request.7")
            assert backend.requests[-1].request_id.startswith(f"{told}.chatcmpl-")
    wrong = asked(temperature="hot")
    refused = await http.post(CHAT, json=wrong, headers={"x-request-id": "r"})
    assert (refused.status_code, refused.headers["x-request-id"]) == (400, "r")


async def test_backend_restarts_fail_no_request(client, backend):
    """A backend that forgets all it held, again and again, while clients go on asking."""
    backend.scripts["hi"] = Script((call("tool1", {}),))
    names = [f"tool{at}" for at in range(6)]

    async def ask(number: int) -> list[str]:
        seen = []
        for at in range(6):
            tools = [
                {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
                for name in names[: 2 + (number + at) % 5]
            ]
            answer = await client.chat.completions.create(**asked(tools=tools))
            seen.append(answer.choices[0].finish_reason)
        return seen

    clients = asyncio.gather(*(ask(number) for number in range(8)))
    restarts = 0
    while not clients.done():
        await asyncio.sleep(0.01)
        if len(backend.requests) >= 12 * (restarts + 1):
            backend.forget()
            restarts += 1
    assert await clients == [["tool_calls"] * 6] * 8
    assert restarts >= 3
    assert len(backend.loads) >= restarts - 1
    assert len(backend.requests) == 8 * 6


async def test_concurrent_responses_do_not_mix(client, backend):
    texts = {f"s{at}": f"Answer number {at}, and no other." for at in range(24)}
    backend.scripts |= {name: Script((text,), pause=0.001) for name, text in texts.items()}
    answers = await asyncio.gather(
        *((streamed if at % 2 else whole)(client, **asked(f"s{at}")) for at in range(24))
    )
    assert [answer[0][0] for answer, _ in answers] == list(texts.values())


@pytest.mark.parametrize(("params", "code", "param"), ROWS["refused"])
async def test_invalid_requests_return_their_error(http, backend, params, code, param):
    error = {"message": "Too long.", "code": "context_length_exceeded", "param": "messages"}
    backend.scripts |= SCRIPTS | {"long": Script(("",), error_status=400, error=error)}
    for stream in (True, False):
        response = await http.post(CHAT, json=asked("content", stream=stream) | params)
        assert response.status_code == 400, response.text
        error = response.json()["error"]
        assert (error["code"], error["param"]) == (code, param)
        assert error["type"] == "invalid_request_error"
        assert "litellm" not in error["message"].lower()
        if code == "schema_not_enforceable":
            assert error["pointer"] == "/not"
    unknown = await http.post(CHAT, json=asked("content") | {"model": "nope"})
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")
