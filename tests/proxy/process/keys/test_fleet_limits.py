"""Two gateways over one Redis enforce limits together, through kills and outages."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.support.apis.sdk_requests import asked
from tests.support.effort import repeats
from tests.support.servers.gateway_process import Fleet, two_gateways
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import make_key
from tests.support.waiting import until

CHAT = "/v1/chat/completions"
AT_ONCE = repeats(120, nightly=200)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with two_gateways(tmp_path_factory.mktemp("fleet")) as made:
        made.backend.scripts |= {
            "hi": Script(("Hello there, friend",), pause=0.02),
            "slow": Script(("Hello there, friend " * 6,), pause=0.05),
            "endless": Script(("Hello",), hang_after=1),
        }
        yield made


@pytest.fixture(autouse=True)
def all_alive(fleet: Fleet) -> Iterator[None]:
    """After each test."""
    yield
    for gateway in fleet.gateways:
        gateway.require_alive()


@asynccontextmanager
async def clients(fleet: Fleet, sent: str) -> AsyncIterator[list[httpx.AsyncClient]]:
    headers = bearer(sent)
    limits = httpx.Limits(max_connections=AT_ONCE)
    made = [http_client(url, headers=headers, timeout=120, limits=limits) for url in fleet.urls]
    try:
        yield made
    finally:
        for each in made:
            await each.aclose()


async def answers(fleet: Fleet, sent: str, number: int, **params: Any) -> list[httpx.Response]:
    """Those to so many requests at once, half of them at either gateway."""
    async with clients(fleet, sent) as both:
        return await asyncio.gather(
            *(both[at % 2].post(CHAT, json=asked(**params)) for at in range(number))
        )


async def storm(fleet: Fleet, sent: str, number: int, **params: Any) -> Counter[int]:
    """How often each status came."""
    said = await answers(fleet, sent, number, **params)
    return Counter(response.status_code for response in said)


async def test_requests_per_minute_are_exact(fleet: Fleet) -> None:
    sent, _ = await make_key(fleet.redis.url, *fleet.urls, rpm=AT_ONCE // 2)
    assert await storm(fleet, sent, AT_ONCE) == {200: AT_ONCE // 2, 429: AT_ONCE // 2}


async def test_tokens_per_minute_are_never_exceeded(fleet: Fleet) -> None:
    """Each request uses 19 tokens, and may use many more. What it reserved and did not use is free
    when it has ended, which may be after the whole storm was refused: so there are several."""
    began = time.monotonic()
    sent, _ = await make_key(fleet.redis.url, *fleet.urls, tpm=2000)
    said = await storm(fleet, sent, AT_ONCE, max_tokens=100)
    assert set(said) == {200, 429}
    assert 0 < said[200] <= 2000 // 19
    admitted = said[200]
    while admitted * 19 <= 2000 * 0.9 and time.monotonic() - began < 30:  # within the minute
        more = await storm(fleet, sent, AT_ONCE, max_tokens=8)
        admitted += more[200]
    more = await storm(fleet, sent, AT_ONCE, max_tokens=8)
    admitted += more[200]
    assert admitted * 19 <= 2000
    assert admitted * 19 > 2000 * 0.9, "what was not used can be used"


async def test_parallel_requests_are_never_exceeded(fleet: Fleet) -> None:
    sent, _ = await make_key(fleet.redis.url, *fleet.urls, max_parallel_requests=60)
    seen = 0

    async def look() -> None:
        nonlocal seen
        while True:
            seen = max(seen, fleet.backend.running)
            await asyncio.sleep(0.002)

    looking = asyncio.create_task(look())
    said = await storm(fleet, sent, AT_ONCE, script="slow", stream=True)
    looking.cancel()
    assert set(said) == {200, 429}
    assert said[200] >= 60
    assert seen <= 60
    for _ in range(3):  # all of the room is there again, at either gateway
        assert await storm(fleet, sent, 60, stream=True) == {200: 60}


async def test_killed_gateway_releases_its_parallel_requests(fleet: Fleet) -> None:
    sent, _ = await make_key(fleet.redis.url, *fleet.urls, max_parallel_requests=20)
    async with clients(fleet, sent) as (stays, dies):
        hanging = [
            asyncio.create_task(dies.post(CHAT, json=asked("endless", stream=True)))
            for _ in range(20)
        ]
        await until(lambda: fleet.backend.running == 20)
        assert (await stays.post(CHAT, json=asked())).status_code == 429
        port = int(fleet.urls[1].rpartition(":")[2])
        fleet.gateways[1].process.kill()
        fleet.gateways[1].process.join(20)
        await asyncio.gather(*hanging, return_exceptions=True)
        async with asyncio.timeout(30):
            while (await stays.post(CHAT, json=asked())).status_code == 429:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        said = await asyncio.gather(*(stays.post(CHAT, json=asked()) for _ in range(20)))
        assert {response.status_code for response in said} == {200}
    fleet.start(1, port)
    fleet.wait()
    assert await storm(fleet, sent, 20) == {200: 20}


@pytest.mark.parametrize("fault", ["hang", "kill"])
async def test_redis_outage_returns_503_for_limited_keys_only(fleet: Fleet, fault: str) -> None:
    limited, _ = await make_key(fleet.redis.url, *fleet.urls, rpm=1000, max_parallel_requests=50)
    counted, _ = await make_key(fleet.redis.url, *fleet.urls, rpm=30)
    free, _ = await make_key(fleet.redis.url, *fleet.urls)
    streams, _ = await make_key(fleet.redis.url, *fleet.urls, max_parallel_requests=AT_ONCE)
    began = time.monotonic()
    assert await storm(fleet, counted, 20) == {200: 20}
    await asyncio.sleep(1.5)  # Redis writes its log every second
    in_flight = asyncio.create_task(answers(fleet, streams, AT_ONCE, script="slow", stream=True))
    await until(lambda: fleet.backend.running >= AT_ONCE // 4)
    fleet.redis.hang() if fault == "hang" else fleet.redis.kill()
    try:
        closed = await storm(fleet, limited, 20)
        assert closed == {503: 20}
        assert await storm(fleet, free, 20) == {200: 20}
        ended = await in_flight
        let_in = [response for response in ended if response.status_code == 200]
        assert len(let_in) >= AT_ONCE // 4
        assert {response.status_code for response in ended} <= {200, 503}
        assert all(response.text.endswith("data: [DONE]\n\n") for response in let_in)
        assert all(response.text.count('"stop"') == 1 for response in let_in)
        async with clients(fleet, limited) as (http, _):
            response = await http.post(CHAT, json=asked())
            assert response.json()["error"]["code"] == "limits_unavailable"
            assert int(response.headers["retry-after"]) == 1
            wrong = await http.post(CHAT, json=asked(), headers={"Authorization": "Bearer no"})
            assert wrong.status_code == 401
    finally:
        fleet.redis.wake() if fault == "hang" else fleet.redis.restart()
    async with asyncio.timeout(30):
        while await storm(fleet, limited, 50) != {200: 50}:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    async with asyncio.timeout(30):  # until what ended meanwhile counts no longer
        while await storm(fleet, streams, AT_ONCE) != {200: AT_ONCE}:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    again = await storm(fleet, counted, 40)
    if time.monotonic() - began < 60:  # else the minute of the first twenty is over
        assert again == {200: 10, 429: 30}, "what was counted before is still counted"
