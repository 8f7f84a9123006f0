"""The list of LiteLLM's parts of features. Only it imports them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .litellm_part import FeaturePart
from .mcp.litellm_servers import LiteLLMMcp as MCP
from .web.litellm_search import LiteLLMSearches as WEB

PARTS: tuple[type[FeaturePart], ...] = (
    WEB,
    MCP,
)
PARAMETERS = frozenset().union(*(each.PARAMETERS for each in PARTS))
PLAIN = (None, "function", "custom")
"""Types of tools that the client runs, and no feature."""


def parts_of(values: Mapping[str, Any]) -> list[FeaturePart]:
    """Return LiteLLM's parts of the features for a request that may use the operator's tools."""
    tools = values.get("tools")
    entries = tools if isinstance(tools, list) else ()
    if PARAMETERS.isdisjoint(values) and not any(
        isinstance(entry, dict) and entry.get("type") not in PLAIN for entry in entries
    ):
        return []
    return [kind() for kind in PARTS]
