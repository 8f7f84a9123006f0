"""What a request may use of the operator's for the features: the search engine and the MCP servers
of LiteLLM. This is the only place that names the modules that provide it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..api.surface import Client
from . import mcp, web_search
from .admission import Admission
from .mcp_credentials import McpCredentials

PROVIDERS = (
    web_search,
    mcp,
)


async def with_tools(
    client: Client, values: Mapping[str, Any], host: Admission, credentials: McpCredentials
) -> Client:
    """Return the sender with what its request uses. Raise ToolgateError."""
    for each in PROVIDERS:
        client = await each.provided(client, values, host.caller, credentials)
    return client


def begin_series() -> None:
    """Begin the series of the operator's tools, so that their first failure is seen."""
    for each in PROVIDERS:
        each.begin()
