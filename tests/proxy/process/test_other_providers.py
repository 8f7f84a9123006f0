"""Models of other providers, which LiteLLM serves: limits, metrics and fallbacks; what LiteLLM's
configuration sets for all models."""

import asyncio
from functools import partial

import pytest
from redis import Redis

from tests.proxy.process.kit import CHAT, HI, MESSAGES, RESPONSES, value
from tests.support.litellm.own_route import PATHS, body_of
from tests.support.servers.fake_provider import OUTPUT, PAUSE, PROMPT
from tests.support.servers.gateway_process import BROWSER_ORIGIN
from tests.support.servers.http_client import http_client
from tests.support.servers.virtual_keys import make_key
from tests.support.waiting import until

LIMIT = 3000
WHOLE = {
    "chat": (CHAT, {"messages": HI["messages"]}),
    "chat stream": (CHAT, {"messages": HI["messages"], "stream": True}),
    "chat stream with usage": (
        CHAT,
        {"messages": HI["messages"], "stream": True, "stream_options": {"include_usage": True}},
    ),
    "responses": (RESPONSES, {"input": "hi"}),
    "responses stream": (RESPONSES, {"input": "hi", "stream": True}),
    "messages": (MESSAGES, {"messages": HI["messages"], "max_tokens": 900}),
    "messages stream": (MESSAGES, {"messages": HI["messages"], "max_tokens": 900, "stream": True}),
    "embeddings": ("/v1/embeddings", {"input": "hi"}),
}
KEYLESS = {
    "keyless-gpt": ("openai/gpt-y", "OPENAI_API_KEY"),
    "keyless-claude": ("anthropic/claude-y", "ANTHROPIC_API_KEY"),
}
"""Models without credentials: LiteLLM's name, and the variable of the key."""


class Client:
    """A client with a key of its own, whose day has LIMIT tokens."""

    def __init__(self, url, sent, key, redis):
        self.http = http_client(url, sent, timeout=60)
        self._key = key
        self._redis = redis

    async def post(self, path, body):
        response = await self.http.post(path, json={"model": "hosted", **body})
        assert response.status_code == 200, response.text
        return response

    def used(self):
        """Tokens of the day."""
        days = self._redis.hgetall(f"toolgate:limit:{{{self._key.id}}}:days")
        return sum(int(value) for period, value in days.items() if period != b"last")

    async def settled(self):
        """Tokens of the day, once they do not change any more."""
        async with asyncio.timeout(30):
            last = -1
            while (used := self.used()) != last:
                last = used
                await asyncio.sleep(0.5)
        return last


@pytest.fixture
async def client(configured, team):
    sent, key = await make_key(
        configured.redis, configured.url, tokens_per_day=LIMIT, max_parallel_requests=1
    )
    return Client(configured.url, sent, key, Redis.from_url(configured.redis))


@pytest.mark.parametrize("name", WHOLE)
async def test_a_response_counts_the_tokens_that_the_provider_reports(client, name):
    path, body = WHOLE[name]
    await client.post(path, body)
    tokens = PROMPT if name == "embeddings" else PROMPT + OUTPUT
    # Until LiteLLM reports them, what was reserved counts.
    await until(client.used, holds=lambda used: used == tokens)
    assert await client.settled() == tokens


@pytest.mark.parametrize("stream", [False, True])
async def test_many_small_requests_do_not_exhaust_the_day(client, stream):
    for _ in range(12):
        await client.post(CHAT, {"messages": HI["messages"], "stream": stream})
    assert await client.settled() == 12 * (PROMPT + OUTPUT)


async def test_a_client_that_leaves_a_stream_is_charged_for_what_came(client, provider):
    left, words = provider.left, 400
    body = {
        "model": "hosted",
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
    await until(lambda: client.used() < 2 * words)  # all of max_tokens, until it is known
    used = await client.settled()
    assert used >= 20
    await until(lambda: provider.left > left)
    await client.post(CHAT, {"messages": HI["messages"]})
    assert await client.settled() == used + PROMPT + OUTPUT


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", KEYLESS)
async def test_a_model_without_credentials_is_an_error_that_says_what_to_configure(
    team, name, stream
):
    response = await team.post(CHAT, json=HI | {"model": name, "stream": stream})
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (500, "gateway_misconfigured"), error
    assert (error["type"], error["param"]) == ("server_error", "model")
    model, variable = KEYLESS[name]
    assert repr(model.partition("/")[0]) in error["message"]
    assert variable in error["message"]


SURFACES = {"chat_completions": "chat", "messages": "messages", "responses": "responses"}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("surface", SURFACES)
async def test_tokens_and_times_are_in_the_metrics(team, surface, stream):
    model, api = f"{surface}-{'stream' if stream else 'whole'}", SURFACES[surface]
    labels = {"model": model, "surface": surface}
    response = await team.post(PATHS[api], json=body_of(api, model=model, stream=stream))
    assert response.status_code == 200, response.text

    def tokens(shown):
        ways = ("input", "output")
        return [value(shown.text, "toolgate_tokens_total", **labels, direction=way) for way in ways]

    # LiteLLM may report the tokens after the response.
    ask = partial(team.get, "/toolgate/metrics")
    shown = await until(ask, 60, lambda each: all(tokens(each)))
    text = shown.text
    assert tokens(shown) == [PROMPT, OUTPUT]
    assert value(text, "toolgate_request_seconds_count", **labels) == 1
    for name in ("toolgate_first_token_seconds_count", "toolgate_inter_token_seconds_count"):
        assert value(text, name, **labels) == stream


LOOK = {"name": "look", "parameters": {"type": "object"}}
TOOLS = {
    "chat": {"type": "function", "function": LOOK},
    "responses": {"type": "function", **LOOK},
    "messages": {"name": "look", "input_schema": {"type": "object"}},
}
APIS = pytest.mark.parametrize("api", list(PATHS))


async def ask(
    configured, model, content = "hi", api = "chat", *,
    stream = False, **terms,
):  # fmt: skip
    sent, _ = await make_key(configured.redis, configured.url, **terms)
    body = body_of(api, content, model=model, tools=[TOOLS[api]], stream=stream)
    async with http_client(configured.url, sent, timeout=60) as http:
        return await http.post(PATHS[api], json=body)


@pytest.mark.usefixtures("team")
@APIS
@pytest.mark.parametrize(
    ("model", "content", "status", "code"),
    [("gone", "hi", 503, "backend_unavailable"), ("insured", "breaks", 502, "backend_failed")],
)
async def test_an_answer_of_a_fallback_says_that_nothing_is_enforced_and_a_key_can_refuse_it(
    configured, api, model, content, status, code
):
    """Also if the backend had accepted the request, and had its grammars. The error is that of the
    backend. A fallback needs no permission of the key, unless that is configured."""
    for stream in (False, True):
        terms = {"tpm": 100_000, "models": (model,)}
        response = await ask(configured, model, content, api, stream=stream, **terms)
        assert response.status_code == 200, response.text
        assert "word" in response.text
        assert response.headers["x-toolgate-fallback"] == "not-enforced"
        assert response.headers["x-toolgate-enforced"] == "none"
        assert response.headers.get_list("x-litellm-model-group") == ["hosted"]
        assert response.headers.get_list("x-litellm-attempted-fallbacks") == ["1"]
        assert "x-toolgate-grammar" not in response.headers
        refused = await ask(configured, model, content, api, stream=stream, enforced_only=True)
        assert (refused.status_code, refused.json()["error"]["code"]) == (status, code)
        assert "x-toolgate-fallback" not in refused.headers
        assert "word" not in refused.text


@pytest.mark.usefixtures("team")
@APIS
async def test_answers_of_backends_are_no_fallbacks(configured, api):
    for model in ("insured", "to-gone"):
        response = await ask(configured, model, api=api, enforced_only=True)
        assert response.status_code == 200
        assert response.headers["x-toolgate-enforced"] == "full"
        assert "x-toolgate-fallback" not in response.headers
    hosted = await ask(configured, "hosted", api=api)
    assert hosted.status_code == 200
    assert "x-toolgate-fallback" not in hosted.headers
    refused = await ask(configured, "hosted", enforced_only=True)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "permission_denied")
    assert "--any-model" in refused.text


async def test_deployment_rpm_returns_429(team):
    said = [(await team.post(CHAT, json=HI | {"model": "limited"})).status_code for _ in range(5)]
    assert said[:2] == [200, 200]
    assert said[-1] == 429


async def test_responses_have_cross_origin_headers(team):
    response = await team.post(CHAT, json=HI, headers={"Origin": BROWSER_ORIGIN})
    assert response.headers["access-control-allow-origin"] in ("*", BROWSER_ORIGIN)


async def test_status_shows_the_route_and_other_providers(team):
    status = (await team.get("/toolgate/status")).json()
    models = {model["model"]: (model["route"], model["reason"]) for model in status["models"]}
    assert models["tiny"] == ("own", None)
    assert models["mixed"][0] == "litellm"
    assert status["others"]["keyless-claude"] == ["anthropic/claude-y"]
