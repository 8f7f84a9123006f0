"""MCP servers of LiteLLM's configuration, in this process."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from litellm.proxy._experimental.mcp_server.mcp_server_manager import global_mcp_server_manager

from tests.support.servers import mcp_shop

STDIO = "LITELLM_ENABLE_MCP_STDIO"
"""Variable without which LiteLLM starts no processes."""
LOOKUP, FAIL, ODD = "shop-lookup", "shop-fail", "shop-odd"
"""The names of its tools, to which LiteLLM adds the server's."""


@asynccontextmanager
async def shop(calls: Path) -> AsyncIterator[None]:
    """Configure the server `shop`. `calls`: the file of the calls that it runs."""
    async with serving(shop=mcp_shop.command(calls)):
        yield


@asynccontextmanager
async def serving(**servers: dict[str, Any]) -> AsyncIterator[None]:
    """Configure servers, by their names."""
    manager = global_mcp_server_manager
    os.environ[STDIO] = "true"
    await manager.load_servers_from_config(servers)
    try:
        yield
    finally:
        del os.environ[STDIO]
        manager.config_mcp_servers.clear()
        manager.tool_name_to_mcp_server_name_mapping.clear()


def ran(calls: Path) -> list[dict[str, Any]]:
    """Return the arguments of the calls that the server ran."""
    lines = calls.read_text(encoding="utf-8").splitlines() if calls.exists() else []
    return [json.loads(line) for line in lines]
