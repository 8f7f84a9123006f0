"""Gateways of a fleet without their processes: each has its own memory and its own connections."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pydantic import SecretStr

from tests.support.servers.fake_backend import INFO, KEY
from toolgate_core.tools import Tool, parse_tools
from toolgate_proxy.backend_client.client import Backend
from toolgate_proxy.grammars.redis_cache import RedisCache
from toolgate_proxy.grammars.service import GrammarService, LoadedGrammars
from toolgate_proxy.settings import Settings

SECRET = "a-secret-of-the-fleet"


def places(tools: Sequence[Tool]) -> dict[str, str]:
    """Where in a request each tool's schema stands, by its name."""
    return {tool.name: f"tools[{at}].function.parameters" for at, tool in enumerate(tools)}


class Gateway:
    def __init__(self, backend_url: str, settings: Settings) -> None:
        fleet = RedisCache.from_settings(settings)
        assert fleet is not None
        self.fleet = fleet
        self.backend = Backend(backend_url, SecretStr(KEY), settings)
        self.grammars = GrammarService(self.backend, fleet)

    async def ask(self, *tools: Tool) -> LoadedGrammars:
        return await self.grammars.ensure(tools, places(tools), INFO)

    async def timed(self, *tools: Tool) -> float:
        """Seconds that `ask` takes."""
        began = time.monotonic()
        await self.ask(*tools)
        return time.monotonic() - began


@asynccontextmanager
async def gateway(
    backend_url: str, redis_url: str, secret: str = SECRET, **settings: Any
) -> AsyncIterator[Gateway]:
    """Connected: a process has made its connection before its first request."""
    made = Gateway(
        backend_url,
        Settings(redis_url=SecretStr(redis_url), fleet_secret=SecretStr(secret), **settings),
    )
    await made.fleet.wait_until_connected()
    try:
        yield made
    finally:
        await made.fleet.aclose()
        await made.backend.aclose()


def tool(name: str, **properties: Any) -> Tool:
    parameters = {"type": "object", "properties": properties}
    entry = {"type": "function", "function": {"name": name, "parameters": parameters}}
    (parsed,) = parse_tools([entry])
    return parsed


def tools(count: int, prefix: str = "t") -> tuple[Tool, ...]:
    return tuple(tool(f"{prefix}{at}", a={"type": "string"}) for at in range(count))
