"""Schemas whose references multiply, sent to a running backend beside another client's requests."""

from __future__ import annotations

import asyncio
import statistics
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import psutil
import pytest

from tests import tools
from tests.gateway.engines.streams import CHAT
from tests.gateway.servers import Backend, Gateway
from tests.support.schemas.hostile import HOSTILE

USER = [{"role": "user", "content": "hi"}]
ATTACKS = (
    "doubling properties",
    "doubling allOf",
    "doubling properties at the root",
    "doubling allOf at the root",
)
SMALL: dict[str, Any] = {
    "type": "object",
    "properties": {"x": {"type": "string", "maxLength": 3}},
}
WITH_PATTERN: dict[str, Any] = {
    "type": "object",
    "properties": {"x": {"type": "string", "pattern": "^[a-c]{1,3}$"}},
    "required": ["x"],
}
"""For the other grammar engine."""
MAX_GROWTH = 64 * 2**20
"""Bytes that the engine may grow."""


@pytest.fixture
async def http(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"authorization": f"Bearer {gateway.key}"}
    async with httpx.AsyncClient(
        base_url=gateway.url, headers=headers, timeout=60, trust_env=False, verify=False
    ) as client:
        yield client


@dataclass(frozen=True)
class Measured:
    """Medians, in seconds."""

    gap: float
    """Between two events of the stream."""
    answer: float
    """Of a short request."""


@dataclass
class Neighbour:
    """Another client: a stream of tokens, and short requests with a tool that it has used before,
    one after the other."""

    http: httpx.AsyncClient
    common: dict[str, Any]
    gaps: list[float] = field(default_factory=list)
    """Seconds between two events of the stream."""
    answers: list[float] = field(default_factory=list)
    """Seconds of each short request."""

    def measured(self) -> Measured:
        """Of the time since the last call."""
        found = Measured(statistics.median(self.gaps), statistics.median(self.answers))
        self.gaps, self.answers = [], []
        return found

    async def stream(self) -> None:
        body = {**self.common, "messages": USER, "logit_bias": {}, "max_tokens": 7000}
        body |= {"ignore_eos": True, "reasoning_effort": "none", "stream": True}
        async with self.http.stream("POST", CHAT, json=body) as response:
            assert response.status_code == 200
            last = time.monotonic()
            async for line in response.aiter_lines():
                if line.startswith("data:"):
                    now = time.monotonic()
                    self.gaps.append(now - last)
                    last = now

    async def ask(self) -> None:
        body = {**self.common, "messages": USER, "max_tokens": 8, "tools": [tools.WEATHER]}
        while True:
            began = time.monotonic()
            response = await self.http.post(CHAT, json=body)
            assert response.status_code == 200, response.text
            self.answers.append(time.monotonic() - began)
            await asyncio.sleep(0.1)


def forced(common: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    name = f"tool_{uuid.uuid4().hex}"
    tool = {"type": "function", "function": {"name": name, "parameters": schema}}
    return {**common, "messages": USER, "tools": [tool], "tool_choice": "required"}


def engine_memory(backend: Backend) -> int:
    children = psutil.Process(backend.pid).children(recursive=True)
    engines = [
        each for each in children if "EngineCore" in " ".join([each.name(), *each.cmdline()])
    ]
    assert engines
    return sum(each.memory_info().rss for each in engines)


@pytest.mark.timed
async def test_exponential_schemas_are_answered_and_other_clients_do_not_notice(
    http: httpx.AsyncClient, common: dict[str, Any], target: Backend
) -> None:
    for schema in (WITH_PATTERN, tools.WEATHER["function"]["parameters"], SMALL):
        began = time.monotonic()
        response = await http.post(CHAT, json=forced(common, schema))
        assert response.status_code == 200, response.text
    alone = time.monotonic() - began
    neighbour = Neighbour(http, common)
    tasks = [asyncio.create_task(neighbour.stream()), asyncio.create_task(neighbour.ask())]
    try:
        await asyncio.sleep(4)
        before, memory = neighbour.measured(), engine_memory(target)
        attack = [
            asyncio.create_task(http.post(CHAT, json=forced(common, HOSTILE[name])))
            for name in ATTACKS
        ]
        await asyncio.sleep(0.5)
        began = time.monotonic()
        new = await http.post(CHAT, json=forced(common, SMALL))
        seconds = time.monotonic() - began
        attacks = await asyncio.gather(*attack)
        during, growth = neighbour.measured(), engine_memory(target) - memory
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    print(f"\nbefore: {before}\nduring: {during}")
    print(f"a new tool took {seconds:.2f} s instead of {alone:.2f} s")
    print(f"the engine grew by {growth / 2**20:.1f} MB")
    assert {each.status_code for each in attacks} <= {200, 400}, [each.text for each in attacks]
    assert new.status_code == 200, new.text
    assert seconds < 30
    assert growth <= MAX_GROWTH
    # The compiles in the quarantine have a low priority, but on few cores they are noticed.
    assert during.gap < 10 * before.gap + 0.05
    assert during.answer < 10 * before.answer + 0.25
