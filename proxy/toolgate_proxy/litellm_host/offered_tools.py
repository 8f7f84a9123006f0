"""What a request may use of the operator's: LiteLLM's search engine and MCP servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..api.surface import Client
from ..features.mcp.servers import McpListings
from ..features.web.search import SearchEngine
from .callbacks.host_side import HostSide
from .mcp import listings, mcp_entries
from .mcp_credentials import McpCredentials
from .operator_tools import permitted_search, search_tools


async def with_tools(
    client: Client, values: Mapping[str, Any], host: HostSide, credentials: McpCredentials
) -> Client:
    """Return the sender with what its request uses. Raise ToolgateError."""
    if values.get("tools") and search_tools():
        engine = await permitted_search(host.caller)
        client = client if engine is None else client.given(SearchEngine, engine)
    if entries := mcp_entries(values):
        found = await listings(entries, host.caller, credentials)
        client = client.given(McpListings, McpListings(found))
    return client
