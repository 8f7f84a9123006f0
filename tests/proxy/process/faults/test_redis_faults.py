"""A running gateway whose Redis hangs, loses its data, stops and restarts under load."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

import httpx

from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.script import Script, call

SLACK = 5.0
"""Seconds that a request may take on a busy machine. A hung Redis without a time-out takes more."""


async def ask(http: httpx.AsyncClient, number: int, at: int) -> tuple[int, str, float]:
    """Each request brings one tool that is new, and one that all know."""
    names = ["everyones", f"fault_{number}_{at}"]
    tools = [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
        for name in names
    ]
    body: dict[str, Any] = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "hi"}],
        "tools": tools,
        "stream": bool(at % 2),
    }
    began = time.monotonic()
    answer = await http.post("/v1/chat/completions", json=body)
    return answer.status_code, answer.text, time.monotonic() - began


async def breaker(http: httpx.AsyncClient, *, becomes: str) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        told = (await http.get("/toolgate/metrics")).text
        if re.search(rf"^toolgate_redis_breaker_open {becomes}\.0$", told, re.MULTILINE):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"the breaker does not become {becomes}")


async def test_redis_outage_fails_no_request(
    http: httpx.AsyncClient, backend: FakeBackend, redis_of_gateway: RedisServer
) -> None:
    backend.scripts["hi"] = Script((call("everyones", {}),))
    await ask(http, 99, 0)  # a process does much for the first time at its first request
    done = False

    async def client(number: int) -> list[tuple[int, str, float]]:
        seen = []
        while not done:
            seen.append(await ask(http, number, len(seen)))
        return seen

    clients = asyncio.gather(*(client(number) for number in range(6)))
    try:
        redis_of_gateway.hang()
        await breaker(http, becomes="1")
        await asyncio.sleep(0.5)
        redis_of_gateway.wake()
        await breaker(http, becomes="0")
        redis_of_gateway.client.flushall()
        await asyncio.sleep(0.3)
        redis_of_gateway.kill()
        await breaker(http, becomes="1")
    finally:
        done = True
        redis_of_gateway.restart()
    answers = [answer for seen in await clients for answer in seen]
    assert len(answers) >= 18
    assert [text for status, text, _ in answers if status != 200] == []
    assert all('"everyones"' in text for _, text, _ in answers)
    assert max(seconds for *_, seconds in answers) < SLACK
    await breaker(http, becomes="0")
    await ask(http, 100, 0)
    await asyncio.sleep(0.5)
    assert redis_of_gateway.client.keys("toolgate:grammar:*")
