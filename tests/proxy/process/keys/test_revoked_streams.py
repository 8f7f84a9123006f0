"""The response to a request whose key is revoked while it is generated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.support.apis.sdk_requests import asked
from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import make_key, put
from toolgate_proxy.keys.key import Key, now

LENGTH = 400
"""Tokens of a response, 50 ms apart."""


@pytest.fixture
def endless(backend: FakeBackend) -> str:
    backend.scripts["endless"] = Script(("abc" * LENGTH,), pause=0.05)
    return "endless"


def revoked(key: Key) -> Key:
    return key.model_copy(update={"revoked": now()})


def blocked(key: Key) -> Key:
    return key.model_copy(update={"terms": key.terms.model_copy(update={"blocked": True})})


@pytest.mark.parametrize("change", [revoked, blocked])
async def test_the_stream_ends_with_an_error_and_the_backend_stops(
    gateway: str,
    redis_of_gateway: RedisServer,
    backend: FakeBackend,
    endless: str,
    change: Callable[[Key], Key],
) -> None:
    sent, key = await make_key(redis_of_gateway.url, gateway)
    lines: list[str] = []
    headers = bearer(sent)
    async with (
        http_client(gateway, headers=headers, timeout=60) as http,
        http.stream("POST", "/v1/chat/completions", json=asked(endless, stream=True)) as response,
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
    assert await backend.idle_within(5)


async def test_a_response_that_is_not_streamed_is_a_401(
    gateway: str, redis_of_gateway: RedisServer, backend: FakeBackend
) -> None:
    backend.scripts["long"] = Script(("abc" * 60,), pause=0.05)
    sent, key = await make_key(redis_of_gateway.url, gateway)
    headers = bearer(sent)
    async with http_client(gateway, headers=headers, timeout=60) as http:
        request = asyncio.create_task(http.post("/v1/chat/completions", json=asked("long")))
        await asyncio.sleep(1)
        await put(redis_of_gateway.url, revoked(key))
        response = await request
    assert response.status_code == 401
    assert response.json()["error"]["code"] == "invalid_api_key"


async def test_a_changed_limit_or_secret_ends_no_stream(
    gateway: str, redis_of_gateway: RedisServer, backend: FakeBackend
) -> None:
    backend.scripts["long"] = Script(("abc" * 30,), pause=0.05)
    sent, key = await make_key(redis_of_gateway.url, gateway)
    headers = bearer(sent)
    lines: list[str] = []
    async with (
        http_client(gateway, headers=headers, timeout=60) as http,
        http.stream("POST", "/v1/chat/completions", json=asked("long", stream=True)) as response,
    ):
        async for line in response.aiter_lines():
            lines.append(line)
            if len(lines) == 3:
                await put(redis_of_gateway.url, key.model_copy(update={"secrets": ()}))
    assert "data: [DONE]" in lines
