"""Items of what the gateway runs: calls of MCP servers, and what a search for tools
has found. MCP servers also have items with their tools, and with requests for approval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .items import Item


@dataclass
class SearchOutputItem(Item):
    PREFIX = "tso"
    call_id: str
    tools: list[dict[str, Any]]
    """In the form of the request's tools."""

    def body(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": "tool_search_output",
            "status": self.status,
            "execution": "server",
            "call_id": self.call_id,
            "tools": self.tools,
        }
