"""Chromium, a key of a user, and a backend that answers what the page suggests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.browser.chromium import QUESTION, WEATHER, chromium
from tests.support.servers.fake_backend import WITHOUT_MASKS, FakeBackend
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.script import Script, call
from tests.support.servers.virtual_keys import make_key

GOOD, BAD = (
    call("open_ticket", {"code": "WEB-2143", "priority": priority}) for priority in ("high", "HIGH")
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


@pytest.fixture
def user_key(gateway: str, redis_of_gateway: RedisServer) -> str:
    """As the fixture `key`. Playwright's event loop runs in this thread."""
    made = make_key(redis_of_gateway.url, gateway, models=("tiny",), rpm=1000)
    with ThreadPoolExecutor(1) as pool:
        sent, _ = pool.submit(asyncio.run, made).result()
    return sent


@pytest.fixture
def answering(backend: FakeBackend) -> FakeBackend:
    calls = [call("get_weather", {"city": city}) for city in ("Beijing", "Shanghai")]
    backend.scripts[WEATHER] = Script(("\n".join(calls),))
    backend.scripts[QUESTION] = Script((GOOD,))
    backend.scripts[QUESTION + WITHOUT_MASKS] = Script((f"Sure. {BAD}",))
    return backend
