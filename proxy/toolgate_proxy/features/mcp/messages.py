"""`mcp_servers` of the Messages API, and the entries of `tools` that say which of their tools are
offered (https://docs.anthropic.com/en/docs/agents-and-tools/mcp-connector)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolgate_core.errors import InvalidTools, UnsupportedParameter

from ...request_fields import Fields, invalid_value
from ..shared.mcp import ListedTool, Listing, McpTool
from .conversation.content import check_fields

TOOLSET = "mcp_toolset"
"""Type of the entries of `tools`."""
SERVER_FIELDS = ("type", "name", "url", "tool_configuration", "authorization_token")
TOOLSET_FIELDS = ("type", "mcp_server_name", "default_config", "configs", "cache_control")
CONFIG_FIELDS = ("enabled", "defer_loading")


@dataclass(frozen=True)
class OfferedTool:
    path: str
    """Of the entry that offers it."""
    server: str
    """The name of its server in the request."""
    tool: ListedTool
    runner: McpTool
    deferred: bool = False


@dataclass
class McpReader:
    """The MCP servers of one request. `listings`: what they offer, by the paths of their
    entries."""

    listings: Mapping[str, Listing]
    offered: list[OfferedTool] = field(default_factory=list)
    _servers: dict[str, tuple[Fields, Listing]] = field(default_factory=dict)

    def read(self, servers: Sequence[object], tools: Sequence[object]) -> None:
        """Raise InvalidRequest, InvalidTools and UnsupportedParameter."""
        for at, entry in enumerate(servers):
            self._read_server(entry, f"mcp_servers[{at}]")
        configured = set()
        for at, entry in enumerate(tools if self._servers else ()):
            if isinstance(entry, dict) and entry.get("type") == TOOLSET:
                configured.add(self._read_toolset(Fields(entry, f"tools[{at}]")))
        for name in self._servers:
            if name not in configured:
                self._read_configuration(name)

    def takes(self, kind: object) -> bool:
        """Return whether an entry of `tools` of this type was read here."""
        return kind == TOOLSET and bool(self._servers)

    def _read_server(self, entry: object, path: str) -> None:
        if not isinstance(entry, dict):
            raise invalid_value(path, "an object", entry)
        fields, listing = Fields(entry, path), self.listings.get(path)
        if listing is None:
            raise UnsupportedParameter(
                f"{fields.path('url')!r} is no MCP server of this gateway. Use the name of one of "
                "LiteLLM's servers (litellm_proxy/mcp/NAME), or call the server from the client.",
                param=fields.path("url"),
            )
        check_fields(fields, SERVER_FIELDS)
        name = fields.text("name")
        if not name or name in self._servers:
            raise fields.wrong("name", "a name that no other server has")
        self._servers[name] = fields, listing

    def _read_toolset(self, entry: Fields) -> str:
        check_fields(entry, TOOLSET_FIELDS)
        name = entry.text("mcp_server_name")
        if name not in self._servers:
            raise InvalidTools(
                f"{entry.path('mcp_server_name')!r} names no server of 'mcp_servers'.",
                param=entry.path("mcp_server_name"),
            )
        default = _config(entry.mapping("default_config"), entry.path("default_config"))
        given = entry.mapping("configs") or {}
        configs = {
            each: _config(value, f"{entry.path('configs')}.{each}") for each, value in given.items()
        }
        _, listing = self._servers[name]
        for tool in listing.tools:
            own = next((configs[each] for each in configs if tool.is_called(each)), {})
            config = {"enabled": True, "defer_loading": False, **default, **own}
            if config["enabled"]:
                self._offer(entry.place, name, tool, deferred=config["defer_loading"])
        return name

    def _read_configuration(self, name: str) -> None:
        """Offer the tools of a server that no entry of `tools` names."""
        server, listing = self._servers[name]
        given = Fields(
            server.mapping("tool_configuration") or {}, server.path("tool_configuration")
        )
        check_fields(given, ("enabled", "allowed_tools"))
        allowed = given.items("allowed_tools")
        for tool in listing.tools:
            is_allowed = allowed is None or any(tool.is_called(each) for each in allowed)
            if given.flag("enabled") is not False and is_allowed:
                self._offer(server.place, name, tool)

    def _offer(self, path: str, server: str, tool: ListedTool, *, deferred: bool = False) -> None:
        _, listing = self._servers[server]
        runner = McpTool(tool.name, listing.servers)
        self.offered.append(OfferedTool(path, server, tool, runner, deferred))


def _config(given: object, path: str) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise invalid_value(path, "an object", given)
    fields = Fields(given, path)
    check_fields(fields, CONFIG_FIELDS)
    return {name: fields.flag(name) for name in CONFIG_FIELDS if fields.flag(name) is not None}
