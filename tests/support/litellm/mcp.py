"""MCP servers of LiteLLM's configuration, in this process."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from toolgate_proxy.litellm_host.routing.long_term import module

MANAGER = module("litellm.proxy.mcp_server.mcp_server_manager").global_mcp_server_manager
STDIO = "LITELLM_ENABLE_MCP_STDIO"
"""Variable without which LiteLLM starts no processes."""
LIST_SECONDS = 60.0
LOOKUP, FAIL, ODD = "shop-lookup", "shop-fail", "shop-odd"
"""The names of its tools, to which LiteLLM adds the server's."""


@asynccontextmanager
async def serving(**servers: dict[str, Any]) -> AsyncIterator[None]:
    """Configure servers, by their names. Those configured before are there again afterwards."""
    kept = (MANAGER.config_mcp_servers, MANAGER.tool_name_to_mcp_server_name_mapping)
    earlier, setting = [dict(each) for each in kept], os.environ.get(STDIO)
    os.environ[STDIO] = "true"
    before = asyncio.all_tasks()
    await MANAGER.load_servers_from_config(servers)
    listing = asyncio.all_tasks() - before
    try:
        yield
    finally:
        # LiteLLM lists the tools of all servers meanwhile. If that is cancelled while a server's
        # process begins or ends, the task may wait for ever.
        if listing:
            await asyncio.wait(listing, timeout=LIST_SECONDS)
        if setting is None:
            del os.environ[STDIO]
        for each, content in zip(kept, earlier, strict=True):
            each.clear()
            each.update(content)


def ran(calls: Path) -> list[dict[str, Any]]:
    """Return the arguments of the calls that the server ran."""
    lines = calls.read_text(encoding="utf-8").splitlines() if calls.exists() else []
    return [json.loads(line) for line in lines]
