"""The x-toolgate response headers and the metrics of a running gateway; a backend that restarts."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import httpx
import openai
import pytest

from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.script import Script, call

RECEIPT = re.compile(r"(memory|redis|compiled); n=(\d+); ms=(\d+\.\d)")


def asked(*names: str, **params: Any) -> dict[str, Any]:
    tools = [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
        for name in names
    ]
    messages = [{"role": "user", "content": "hi"}]
    return {"model": "tiny", "messages": messages, "tools": tools, **params}


@pytest.fixture
def answering(backend: FakeBackend) -> FakeBackend:
    backend.scripts["hi"] = Script(("Hello",))
    return backend


async def told(http: httpx.AsyncClient, body: dict[str, Any]) -> tuple[str, int]:
    answer = await http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-toolgate-enforced"] == "full"
    match = RECEIPT.fullmatch(answer.headers["x-toolgate-grammar"])
    assert match
    return match[1], int(match[2])


@pytest.mark.parametrize("stream", [False, True])
async def test_grammar_header_has_the_cache_tier(
    http: httpx.AsyncClient, answering: FakeBackend, stream: bool
) -> None:
    one, two = f"tier_a{stream}", f"tier_b{stream}"
    assert await told(http, asked(one, stream=stream)) == ("compiled", 1)
    assert await told(http, asked(one, stream=stream)) == ("memory", 1)
    assert await told(http, asked(one, two, stream=stream)) == ("compiled", 2)
    await asyncio.sleep(0.5)  # until the record is written
    answering.forget()
    assert await told(http, asked(one, stream=stream)) == ("redis", 1)


@pytest.mark.parametrize("stream", [False, True])
async def test_enforced_header_is_none_without_tools(
    http: httpx.AsyncClient, answering: FakeBackend, stream: bool
) -> None:
    body = asked(stream=stream)
    del body["tools"]
    answer = await http.post("/v1/chat/completions", json=body)
    assert answer.headers["x-toolgate-enforced"] == "none"
    assert "x-toolgate-grammar" not in answer.headers
    none = await http.post("/v1/chat/completions", json=asked("any", tool_choice="none"))
    assert none.headers["x-toolgate-enforced"] == "full"


@pytest.mark.parametrize("stream", [False, True])
async def test_costs_of_models_without_prices_are_left_out(
    http: httpx.AsyncClient, answering: FakeBackend, stream: bool
) -> None:
    answer = await http.post("/v1/chat/completions", json=asked("priceless", stream=stream))
    assert answer.is_success
    names = ("cost", "discount", "margin", "spend", "budget")
    assert not [name for name in answer.headers if any(each in name for each in names)]


async def test_refused_request_has_no_toolgate_headers(
    http: httpx.AsyncClient, answering: FakeBackend
) -> None:
    answer = await http.post("/v1/chat/completions", json=asked("refused_here"))
    assert answer.status_code == 400
    assert not [name for name in answer.headers if name.startswith("x-toolgate")]
    models = await http.get("/v1/models")
    assert not [name for name in models.headers if name.startswith("x-toolgate")]


async def test_backend_restarts_fail_no_request(
    client: openai.AsyncOpenAI, backend: FakeBackend
) -> None:
    """A backend that forgets all it held, again and again, while clients go on asking."""
    backend.scripts["hi"] = Script((call("tool1", {}),))
    names = [f"tool{at}" for at in range(6)]

    async def ask(number: int) -> list[str]:
        seen = []
        for at in range(6):
            body = asked(*names[: 2 + (number + at) % 5], stream=False)
            answer = await client.chat.completions.create(**body)
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
    assert backend.lacking >= restarts - 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["/v1/responses", "/v1/messages"])
async def test_responses_and_messages_have_the_headers(
    http: httpx.AsyncClient, answering: FakeBackend, path: str, stream: bool, route: str
) -> None:
    if route == "litellm":
        pytest.skip("LiteLLM's route does not serve it")
    schema = {"type": "object", "properties": {}}
    tool: dict[str, Any] = {"name": "bridged", "input_schema": schema}
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 50}
    if path == "/v1/responses":
        tool = {"type": "function", "name": "bridged", "parameters": schema}
        body = {"input": "hi"}
    answer = await http.post(path, json=body | {"model": "tiny", "tools": [tool], "stream": stream})
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-toolgate-enforced"] == "full"
    assert RECEIPT.fullmatch(answer.headers["x-toolgate-grammar"])


async def test_metrics_count_grammars(http: httpx.AsyncClient, answering: FakeBackend) -> None:
    await told(http, asked("counted"))
    await told(http, asked("counted"))
    answer = await http.get("/toolgate/metrics")
    assert answer.status_code == 200
    for expected in (
        r'toolgate_grammars_total\{tier="compiled"\} \d',
        r'toolgate_grammars_total\{tier="memory"\} \d',
        r'toolgate_grammar_compile_seconds_count\{engine="other"\} \d',
        r'toolgate_grammars_known\{backend="http://127.0.0.1:\d+"\} \d',
        r"toolgate_redis_breaker_open 0",
        r"toolgate_record_bytes_count \d",
    ):
        assert re.search(expected, answer.text), expected


async def test_redis_holds_no_prompt_and_no_key(
    http: httpx.AsyncClient, answering: FakeBackend, redis_of_gateway: RedisServer
) -> None:
    answering.scripts["A prompt nobody else may read"] = Script(("Hello",))
    body = asked("private")
    body["messages"][0]["content"] = "A prompt nobody else may read"
    assert (await http.post("/v1/chat/completions", json=body)).status_code == 200
    await asyncio.sleep(0.5)
    held = redis_of_gateway.everything()
    assert b"private" in held
    for secret in (b"A prompt", b"sk-test", b"backend-key"):
        assert secret not in held
