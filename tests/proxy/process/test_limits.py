"""Limits of a key at a running gateway with a real Redis, and keys that are revoked."""

import asyncio
from functools import partial

import pytest

from tests.proxy.process.kit import BOTH_ROUTES
from tests.support.apis.sdk_requests import asked
from tests.support.servers.http_client import http_client
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import make_key, put, until_status
from tests.support.waiting import until
from toolgate_proxy.keys.key import now

TOKENS = ("x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens")


class Caller:
    """A client with a key of its own."""

    def __init__(self, url, sent):
        self.http = http_client(url, sent, timeout=30)

    async def __call__(self, path="/v1/chat/completions", **params):
        return await self.http.post(path, json=params or asked())


@pytest.fixture
def caller(gateway, redis_of_gateway, backend):
    backend.scripts["hi"] = Script(("Hello there, friend",))  # 11 and 8 tokens
    backend.scripts["long"] = Script(("Hello there, friend " * 20,), pause=0.02)

    async def made(**terms):
        sent, _ = await make_key(redis_of_gateway.url, gateway, **terms)
        return Caller(gateway, sent)

    return made


def numbers(response, names):
    return [int(response.headers[name]) for name in names]


@BOTH_ROUTES
async def test_token_limit_does_not_set_max_tokens(caller, backend):
    """LiteLLM's own limiter sends `max_tokens = tpm / 4` in the client's name."""
    call = await caller(tpm=400)
    assert (await call(**asked("hi"))).status_code == 200
    assert backend.requests[-1].sampling.max_tokens is None


@BOTH_ROUTES
@pytest.mark.parametrize("stream", [False, True])
async def test_prompts_with_more_tokens_than_estimated_do_not_exceed_the_limit(
    caller, backend, stream
):
    """The backend's count is checked before it computes the prompt."""
    backend.scripts["dense"] = Script(("Hello",), prompt_tokens=400)
    call = await caller(tpm=1100)
    said = await asyncio.gather(
        *(call(**asked("dense", max_tokens=10, stream=stream)) for _ in range(10))
    )
    assert sorted(response.status_code for response in said) == [200] * 2 + [429] * 8
    refused = next(response for response in said if response.status_code == 429)
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    assert 1 <= int(refused.headers["retry-after"]) <= 61
    backend.scripts["dense"] = Script(("Hello",), prompt_tokens=1200)
    alone = await call(**asked("dense", max_tokens=10, stream=stream))
    assert alone.status_code == 429
    assert "needs up to 1210 tokens" in alone.json()["error"]["message"]
    assert "retry-after" not in alone.headers
    assert alone.headers["x-should-retry"] == "false"
    probe = await call(**asked("hi", max_tokens=1))
    reserved = 8 + 2 + 1
    assert numbers(probe, TOKENS)[1] == 1100 - 2 * (400 + 3) - reserved, (
        "refused ones count nothing"
    )


@BOTH_ROUTES
async def test_disconnected_response_is_charged_for_what_was_generated(caller):
    call = await caller(tpm=2000, max_parallel_requests=1)
    async with call.http.stream(
        "POST", "/v1/chat/completions", json=asked("long", stream=True, max_tokens=1500)
    ) as response:
        lines = response.aiter_lines()
        for _ in range(8):
            await anext(lines)
    again = partial(call, **asked(max_tokens=10))
    after = await until(again, holds=lambda response: response.status_code != 429)
    left = numbers(after, TOKENS)[1]
    prompt, written = 11, (2, 140)
    assert 2000 - prompt - written[1] - 30 < left < 2000 - prompt - written[0]


def revoked(key):
    return key.model_copy(update={"revoked": now()})


def blocked(key):
    return key.model_copy(update={"terms": key.terms.model_copy(update={"blocked": True})})


async def test_changed_key_reaches_the_gateway(gateway, redis_of_gateway, backend):
    sent, key = await make_key(redis_of_gateway.url, gateway)
    for changed, status in ((blocked(key), 401), (key, 200), (revoked(key), 401)):
        await put(redis_of_gateway.url, changed)
        await until_status(gateway, sent, status)
    response = await Caller(gateway, sent)()
    assert "revoked" in response.json()["error"]["message"]


LENGTH = 400
"""Tokens of a response, 50 ms apart."""


@BOTH_ROUTES
@pytest.mark.parametrize("change", [revoked, blocked])
async def test_the_stream_ends_with_an_error_and_the_backend_stops(
    gateway, redis_of_gateway, backend, change
):
    sent, key = await make_key(redis_of_gateway.url, gateway)
    backend.scripts["endless"] = Script(("abc" * LENGTH,), pause=0.05)
    lines = []
    async with (
        http_client(gateway, sent, timeout=60) as http,
        http.stream("POST", "/v1/chat/completions", json=asked("endless", stream=True)) as response,
    ):
        assert response.status_code == 200
        async for line in response.aiter_lines():
            if line.startswith("data:"):
                lines.append(line)
            if len(lines) == 3:
                await put(redis_of_gateway.url, change(key))
    assert '"error"' in lines[-1] or '"error"' in lines[-2]
    assert "during the response" in "".join(lines[-2:])
    assert len(lines) < LENGTH / 2
    assert await backend.idle_within(20)


@BOTH_ROUTES
async def test_a_response_that_is_not_streamed_is_a_401(gateway, redis_of_gateway, backend):
    backend.scripts["long"] = Script(("abc" * 60,), pause=0.05)
    sent, key = await make_key(redis_of_gateway.url, gateway)
    async with http_client(gateway, sent, timeout=60) as http:
        request = asyncio.create_task(http.post("/v1/chat/completions", json=asked("long")))
        await until(lambda: backend.running)
        await put(redis_of_gateway.url, revoked(key))
        response = await request
    assert response.status_code == 401
    assert response.json()["error"]["code"] == "invalid_api_key"
