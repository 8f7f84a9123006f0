"""What a request may use of the operator's for the features: the search engine and the MCP servers
of LiteLLM. This is the only place that names the modules that provide it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

from ..api.surface import Client
from . import mcp, web_search
from .admission import Admission
from .mcp_credentials import McpCredentials

PROVIDERS = (
    web_search.provided,
    mcp.provided,
)
BEGINNINGS = (
    mcp.begin,
    web_search.begin,
)
PLAIN = (None, "function", "custom")
"""Types of tools that the client runs, and no feature."""


def may_use(values: Mapping[str, Any]) -> bool:
    """Return whether a request has tools that may be the operator's."""
    given = (values.get(name) for name in ("tools", "mcp_servers"))
    entries = chain.from_iterable(each for each in given if isinstance(each, list))
    return any(isinstance(each, dict) and each.get("type") not in PLAIN for each in entries)


async def with_tools(
    client: Client, values: Mapping[str, Any], host: Admission, credentials: McpCredentials
) -> Client:
    """Return the sender with what its request uses. Raise ToolgateError."""
    for provided in PROVIDERS:
        client = await provided(client, values, host.caller, credentials)
    return client


def begin_series() -> None:
    """Begin the series of the operator's tools, so that their first failure is seen."""
    for begin in BEGINNINGS:
        begin()
