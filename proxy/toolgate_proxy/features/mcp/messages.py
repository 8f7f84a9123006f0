"""`mcp_servers` of the Messages API, and the entries of `tools` that say which of their tools are
offered (https://docs.anthropic.com/en/docs/agents-and-tools/mcp-connector)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from toolgate_core.errors import InvalidTools

from ...api.messages.content import check_fields
from ...api.messages.feature import MessagesFeature, MessagesOutput, Use
from ...api.shared.history import Content, text_of
from ...api.shared.tools import OfferedTool, ReadTool, function_entry
from ...request.gateway_tools import GatewayTool
from ...request_fields import Fields
from ..feature import FeatureInput
from .servers import ListedTool, Listing, McpOutcome, McpTool, listing_of

SERVERS = "mcp_servers"
TOOLSET = "mcp_toolset"
"""Type of the entries of `tools`."""
SERVER_FIELDS = ("type", "name", "url", "tool_configuration", "authorization_token")
TOOLSET_FIELDS = ("type", "mcp_server_name", "default_config", "configs", "cache_control")
CONFIG_FIELDS = ("enabled", "defer_loading")
USE = "mcp_tool_use"
RESULT = "mcp_tool_result"


class MessagesMcpOutput(MessagesOutput):
    feature: McpInMessages

    def use(self, name: str) -> Use | None:
        server = self.feature.servers.get(name)
        return None if server is None else Use(USE, "mcp", {"server_name": server})

    def result(self, call_id: str, shown: object) -> dict[str, Any] | None:
        if not isinstance(shown, McpOutcome):
            return None
        text = shown.output if shown.error is None else shown.error
        return {
            "type": RESULT,
            "tool_use_id": call_id,
            "is_error": shown.error is not None,
            "content": [{"type": "text", "text": text}] if text else [],
        }


class McpInMessages(MessagesFeature):
    TYPES = re.compile(TOOLSET)
    ITEMS = (RESULT,)
    USES: ClassVar = {USE: None}
    PARAMETERS = (SERVERS,)
    OUTPUT = MessagesMcpOutput

    def __init__(self, feature_input: FeatureInput) -> None:
        """Read the servers, and all entries of `tools` that name them. Raise InvalidRequest,
        InvalidTools and UnsupportedParameter."""
        super().__init__(feature_input)
        self._servers: dict[str, tuple[Fields, Listing]] = {}
        self.servers: dict[str, str] = {}
        """By tool that is offered: the name of its server in the request."""
        self._entries: list[OfferedTool] = []
        self._runners: dict[str, McpTool] = {}
        for at, entry in enumerate(feature_input.values.get(SERVERS, ())):
            path = f"{SERVERS}[{at}]"
            self._read_server(entry, path, listing_of(feature_input.client, path))
        configured = set()
        for at, entry in enumerate(feature_input.values.get("tools", ()) if self._servers else ()):
            if isinstance(entry, dict) and entry.get("type") == TOOLSET:
                configured.add(self._read_toolset(Fields(entry, f"tools[{at}]")))
        for name in self._servers:
            if name not in configured:
                self._read_configuration(name)

    def take(self, entry: Fields) -> ReadTool | None:
        return ReadTool() if self._servers else None

    def more(self) -> list[OfferedTool]:
        return self._entries

    @property
    def optional(self) -> frozenset[str]:
        return frozenset(self.servers)

    def runners(self) -> Mapping[str, GatewayTool]:
        return self._runners

    def content(self, block: Fields, kind: str) -> Content:
        text = text_of(block.values.get("content"))
        is_error = block.values.get("is_error") is True
        return (McpOutcome(error=text) if is_error else McpOutcome(text)).text

    def _read_server(self, entry: object, path: str, listing: Listing | None) -> None:
        fields = Fields.of(entry, path)
        if listing is None:
            raise fields.refusal(
                "url",
                "is no MCP server of this gateway. Use the name of one of LiteLLM's servers "
                "(litellm_proxy/mcp/NAME), or call the server from the client.",
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
            problem = f"names no server of {SERVERS!r}."
            raise entry.refusal("mcp_server_name", problem, InvalidTools)
        default = _config(entry.mapping("default_config"), entry.path("default_config"))
        path, by_tool = entry.path("configs"), entry.mapping("configs") or {}
        configs = {each: _config(value, f"{path}.{each}") for each, value in by_tool.items()}
        _, listing = self._servers[name]
        for tool in listing.tools:
            own_config = next((configs[each] for each in configs if tool.is_called(each)), {})
            config = {"enabled": True, "defer_loading": False, **default, **own_config}
            if config["enabled"]:
                self._offer(entry.place, name, tool, deferred=config["defer_loading"])
        return name

    def _read_configuration(self, name: str) -> None:
        """Offer the tools of a server that no entry of `tools` names."""
        server, listing = self._servers[name]
        configuration = Fields(
            server.mapping("tool_configuration") or {}, server.path("tool_configuration")
        )
        check_fields(configuration, ("enabled", "allowed_tools"))
        allowed = configuration.items("allowed_tools")
        for tool in listing.tools:
            is_allowed = allowed is None or any(tool.is_called(each) for each in allowed)
            if configuration.flag("enabled") is not False and is_allowed:
                self._offer(server.place, name, tool)

    def _offer(self, path: str, server: str, tool: ListedTool, *, deferred: bool = False) -> None:
        """`path`: of the entry that offers it."""
        _, listing = self._servers[server]
        self.servers[tool.name] = server
        self._entries.append(function_entry(path, tool.function(), deferred=deferred))
        self._runners[tool.name] = McpTool(tool.name, listing.servers)


def _config(configuration: object, path: str) -> dict[str, Any]:
    if configuration is None:
        return {}
    fields = Fields.of(configuration, path)
    check_fields(fields, CONFIG_FIELDS)
    return {name: fields.flag(name) for name in CONFIG_FIELDS if fields.flag(name) is not None}
