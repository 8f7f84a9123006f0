"""An entry of `tools` that names an MCP server, in OpenAI's form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolgate_core.errors import UnsupportedParameter

from ...request_fields import Fields
from .mcp import ListedTool, Listing, McpTool

MCP = "mcp"
"""Type of the entry."""
CREDENTIALS = ("headers", "authorization")
"""Fields that only the server gets."""
FIELDS = (
    "type",
    "server_label",
    "server_url",
    "server_description",
    "allowed_tools",
    "allowed_callers",
    "require_approval",
    "defer_loading",
    *CREDENTIALS,
)
APPROVALS = '"always", "never", or an object with filters of tools'


@dataclass(frozen=True)
class McpEntry:
    label: str
    listing: Listing
    allowed: tuple[ListedTool, ...]
    """The tools that the model is offered."""
    approved: frozenset[str]
    """The names of those that run without an approval."""

    def runners(self) -> dict[str, McpTool]:
        """Return what runs the tools without an approval, by name."""
        servers = self.listing.servers
        return {name: McpTool(name, servers) for name in self.approved}

    def item(self) -> dict[str, Any]:
        """Return the item that lists the tools, without its id."""
        tools = [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": tool.schema,
                **({} if tool.annotations is None else {"annotations": tool.annotations}),
            }
            for tool in self.allowed
        ]
        error = {} if self.listing.error is None else {"error": self.listing.error}
        return {"type": "mcp_list_tools", "server_label": self.label, "tools": tools, **error}


def read_entry(fields: Fields, listing: Listing, *, labelled: bool = True) -> McpEntry:
    """`labelled`: a label is required. Raise InvalidRequest and UnsupportedParameter."""
    for name, value in fields.values.items():
        if name not in FIELDS and value is not None:
            path = fields.path(name)
            reason = f"An MCP server has {', '.join(FIELDS[:-1])} and {FIELDS[-1]}."
            raise UnsupportedParameter(f"{path!r} is not supported. {reason}", param=path)
    label = fields.text("server_label") or ""
    if labelled and not label:
        raise fields.wrong("server_label", "the name of the server in this request")
    given = fields.values.get("allowed_tools")
    filters = {"tool_names": given} if isinstance(given, list) else given
    if filters is not None and not isinstance(filters, dict):
        raise fields.wrong("allowed_tools", "an array of names, or a filter")
    allowed = tuple(tool for tool in listing.tools if filters is None or matches(tool, filters))
    return McpEntry(label, listing, allowed, _approved(fields, allowed))


def _approved(fields: Fields, tools: tuple[ListedTool, ...]) -> frozenset[str]:
    match fields.values.get("require_approval"):
        case "never":
            return frozenset(tool.name for tool in tools)
        case None | "always":
            return frozenset()
        case dict() as filters:
            always, never = filters.get("always"), filters.get("never")
            return frozenset(
                tool.name
                for tool in tools
                if isinstance(never, dict)
                and matches(tool, never)
                and not (isinstance(always, dict) and matches(tool, always))
            )
    raise fields.wrong("require_approval", APPROVALS)


def matches(tool: ListedTool, filters: Mapping[str, Any]) -> bool:
    """Return whether a tool is one of those that a filter describes."""
    names, only_reads = filters.get("tool_names"), filters.get("read_only")
    if isinstance(names, list) and not any(map(tool.is_called, names)):
        return False
    return only_reads is None or tool.only_reads is bool(only_reads)
