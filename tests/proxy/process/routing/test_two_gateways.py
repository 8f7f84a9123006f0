"""Two gateways over one Redis, each with a backend of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx

from tests.support.litellm.routes import OWN_ROUTE_ONLY
from tests.support.servers.fake_backend import FakeBackend, running
from tests.support.servers.gateway_process import MASTER_KEY, serving
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.script import Script

pytestmark = OWN_ROUTE_ONLY

CLIENTS = 8
SETS = 64
AT_MOST_TWICE = 3
"""Grammars that a stall of this machine, longer than Redis' time-out, may have compiled twice."""


async def test_new_tool_sets_are_compiled_once(
    gateway: str, backend: FakeBackend, redis_of_gateway: RedisServer, tmp_path: Path
) -> None:
    """Eight clients, half of them at either gateway, ask for the same 64 new sets at once."""
    backend.load_pause = 0.05
    with (
        running(FakeBackend()) as other,
        serving(
            ["--model", "tiny"],
            other.url,
            tmp_path / "log",
            redis_of_gateway.url,
        ) as second,
    ):
        other.load_pause = 0.05
        for each in (backend, other):
            each.scripts["hi"] = Script(("Hello",))
        statuses = await asyncio.gather(
            *(client((gateway, second.url)[at % 2], at * SETS // CLIENTS) for at in range(CLIENTS))
        )
    assert statuses == [[200] * SETS] * CLIENTS
    compiles = backend.compiles + other.compiles
    assert len(compiles) == SETS + 1  # each set's own tool, and the one that all share
    assert compiles.total() <= len(compiles) + AT_MOST_TWICE
    assert min(backend.compiles.total(), other.compiles.total()) > 0
    assert backend.loaded >= set(compiles)
    assert other.loaded >= set(compiles)


async def client(url: str, first: int) -> list[int]:
    """Statuses of its requests; `first` is the set it begins with."""
    order = [(first + at) % SETS for at in range(SETS)]
    headers = bearer(MASTER_KEY)
    async with http_client(url, headers=headers, timeout=60) as http:
        return [await ask(http, number) for number in order]


async def ask(http: httpx.AsyncClient, number: int) -> int:
    names = ["in_all_sets", f"of_set_{number}"]
    tools = [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
        for name in names
    ]
    messages = [{"role": "user", "content": "hi"}]
    body: dict[str, Any] = {"model": "tiny", "messages": messages, "tools": tools}
    return (await http.post("/v1/chat/completions", json=body)).status_code
