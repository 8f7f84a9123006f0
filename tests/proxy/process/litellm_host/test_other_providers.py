"""Limits on tokens of another provider's models, which LiteLLM serves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import yaml

from tests.support.servers.fake_provider import OUTPUT, PAUSE, PROMPT, FakeProvider, running
from tests.support.servers.gateway_process import MASTER_KEY, serving
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.virtual_keys import make_key
from toolgate_proxy.keys.key import Key
from toolgate_proxy.server.launcher import make_config

LIMIT = 3000
MESSAGES = [{"role": "user", "content": "hi"}]
CHAT, RESPONSES, MESSAGES_API = "/v1/chat/completions", "/v1/responses", "/v1/messages"
WHOLE: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (CHAT, {"messages": MESSAGES}),
    "chat stream": (CHAT, {"messages": MESSAGES, "stream": True}),
    "chat stream with usage": (
        CHAT,
        {"messages": MESSAGES, "stream": True, "stream_options": {"include_usage": True}},
    ),
    "responses": (RESPONSES, {"input": "hi"}),
    "responses stream": (RESPONSES, {"input": "hi", "stream": True}),
    "messages": (MESSAGES_API, {"messages": MESSAGES, "max_tokens": 900}),
    "messages stream": (MESSAGES_API, {"messages": MESSAGES, "max_tokens": 900, "stream": True}),
    "embeddings": ("/v1/embeddings", {"input": "hi"}),
}

KEYLESS = {
    "keyless-gpt": ("openai/gpt-y", "OPENAI_API_KEY"),
    "keyless-claude": ("anthropic/claude-y", "ANTHROPIC_API_KEY"),
}
"""Models without credentials: LiteLLM's name, and the variable of the key."""


@pytest.fixture(scope="module")
def provider() -> Iterator[FakeProvider]:
    with running(FakeProvider()) as provider:
        yield provider


@pytest.fixture(scope="module")
def gateway(
    provider: FakeProvider, spare_redis: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("providers")
    params = {"model": "openai/gpt-x", "api_base": provider.url, "api_key": "k"}
    models = {"gpt": params} | {name: {"model": model} for name, (model, _) in KEYLESS.items()}
    listed = [{"model_name": name, "litellm_params": each} for name, each in models.items()]
    config = make_config([]) | {"model_list": listed}
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    arguments = ["--config", str(path)]
    unused = "http://127.0.0.1:9"
    with serving(arguments, unused, folder / "log", spare_redis.url) as running_gateway:
        yield running_gateway.url


async def test_the_status_names_models_of_other_providers(gateway: str) -> None:
    async with http_client(gateway, headers=bearer(MASTER_KEY)) as http:
        status = (await http.get("/toolgate/status")).json()
    assert status["models"] == []
    others = {"gpt": ["openai/gpt-x"]} | {name: [model] for name, (model, _) in KEYLESS.items()}
    assert status["others"] == others


class Client:
    """A client with a key of its own, whose day has LIMIT tokens."""

    def __init__(self, url: str, sent: str, key: Key, redis: RedisServer) -> None:
        self.http = http_client(url, headers=bearer(sent), timeout=30)
        self._key = key
        self._redis = redis

    async def post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        response = await self.http.post(path, json={"model": "gpt", **body})
        assert response.status_code == 200, response.text
        return response

    def used(self) -> int:
        """Tokens of the day."""
        days = self._redis.client.hgetall(f"toolgate:limit:{{{self._key.id}}}:days")
        return sum(int(value) for period, value in days.items() if period != b"last")

    async def settled(self) -> int:
        """Tokens of the day, once they do not change any more."""
        async with asyncio.timeout(10):
            last = -1
            while (used := self.used()) != last:
                last = used
                await asyncio.sleep(0.5)
        return last


@pytest.fixture
async def client(gateway: str, spare_redis: RedisServer) -> Client:
    sent, key = await make_key(
        spare_redis.url, gateway, tokens_per_day=LIMIT, max_parallel_requests=1
    )
    return Client(gateway, sent, key, spare_redis)


@pytest.mark.parametrize("name", WHOLE)
async def test_a_response_counts_the_tokens_that_the_provider_reports(
    client: Client, name: str
) -> None:
    path, body = WHOLE[name]
    await client.post(path, body)
    at_once = client.used()
    tokens = PROMPT if name == "embeddings" else PROMPT + OUTPUT
    if "stream" not in name or name in ("chat stream with usage", "responses stream"):
        assert at_once == tokens, "exact before the last byte"
    else:
        assert at_once < 50, "estimated by its text"
    assert await client.settled() == tokens


@pytest.mark.parametrize("stream", [False, True])
async def test_many_small_requests_do_not_exhaust_the_day(client: Client, stream: bool) -> None:
    for _ in range(12):
        await client.post(CHAT, {"messages": MESSAGES, "stream": stream})
    assert await client.settled() == 12 * (PROMPT + OUTPUT)


async def test_a_client_that_leaves_a_stream_is_charged_for_what_came(
    client: Client, provider: FakeProvider
) -> None:
    left, words = provider.left, 400
    body = {
        "model": "gpt",
        "messages": [{"role": "user", "content": f"{words} words"}],
        "stream": True,
        "max_tokens": 2000,
    }
    async with client.http.stream("POST", CHAT, json=body) as response:
        await asyncio.sleep(50 * PAUSE)
        got = 0
        async for line in response.aiter_lines():
            got += line.startswith("data:")
            if got > 30:
                break
    used = await client.settled()
    assert 20 <= used < 2 * words, "not all of max_tokens"
    async with asyncio.timeout(10):
        while provider.left == left:  # noqa: ASYNC110  another thread's
            await asyncio.sleep(0.05)
    await client.post(CHAT, {"messages": MESSAGES})
    assert await client.settled() == used + PROMPT + OUTPUT


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", KEYLESS)
async def test_a_model_without_credentials_is_an_error_that_says_what_to_configure(
    gateway: str, name: str, stream: bool
) -> None:
    async with http_client(gateway, headers=bearer(MASTER_KEY), timeout=30) as http:
        body = {"model": name, "messages": MESSAGES, "stream": stream}
        response = await http.post(CHAT, json=body)
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (500, "gateway_misconfigured"), error
    assert (error["type"], error["param"]) == ("server_error", "model")
    model, variable = KEYLESS[name]
    assert repr(model.partition("/")[0]) in error["message"]
    assert variable in error["message"]
