"""Tools of MCP servers that the gateway runs: what a server offers, the entry of `tools` that names
it in OpenAI's form, and the result of a call.

The servers are the operator's: those of LiteLLM's configuration or database that the key may use.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from ...api.shared.tools import OfferedTool, function_entry
from ...api.surface import Client, Provision
from ...request.gateway_tools import CallResult, GatewayResult, ToolLabel
from ...request_fields import Fields

MAX_RESULT = 100_000
"""Most characters of a result."""
EMPTY = "[no output]"


def result_text(result: Mapping[str, Any]) -> str:
    """Return the result of a call, in MCP's form, as the model sees it. Servers send anything."""
    texts, has_text = [], False
    for part in result["content"]:
        part_fields: dict[str, Any] = part if isinstance(part, dict) else {}
        resource = part_fields.get("resource")
        inner: dict[str, Any] = resource if isinstance(resource, dict) else part_fields
        if isinstance(text := inner.get("text"), str):
            has_text = has_text or bool(text)
        else:
            members = (inner.get(name) for name in ("name", "description", "uri", "mimeType"))
            text = " ".join([f"[{part_fields.get('type')}]", *map(str, filter(None, members))])
        texts.append(text)
    structured = result.get("structuredContent")
    if structured is not None and not has_text:
        texts.append(json.dumps(structured, ensure_ascii=False))
    return "\n".join(texts)


@dataclass(frozen=True)
class ListedTool:
    """A tool as its server describes it."""

    name: str
    """The name that the model sees. LiteLLM puts that of the server before it."""
    description: str
    schema: Any
    annotations: Mapping[str, Any] | None = None
    own_names: tuple[str, ...] = ()
    """Its names at its server: the own one, and the one with LiteLLM's prefix."""

    @property
    def only_reads(self) -> bool:
        """Whether the server says that the tool changes nothing."""
        return (self.annotations or {}).get("readOnlyHint") is True

    def is_called(self, name: object) -> bool:
        """Return whether a client means the tool by a name, which may be without the server's."""
        return bool(name) and name in (self.name, *self.own_names)

    def function(self) -> dict[str, Any]:
        """Return the tool as a function in OpenAI's form."""
        schema = self.schema if isinstance(self.schema, dict) else {"type": "object"}
        described = {"description": self.description} if self.description else {}
        return {"name": self.name, **described, "parameters": schema}


@dataclass(frozen=True)
class McpOutcome:
    """What a call shows the client. One of the texts is set."""

    output: str | None = None
    error: str | None = None
    approval: str | None = None
    """The id of the request for approval, if the call needed one."""
    failure: CallResult = "error"
    """How it failed, if there is an error."""

    @property
    def text(self) -> str:
        """What the model sees."""
        return f"Error: {self.error}" if self.error is not None else self.output or EMPTY


class McpServers(Protocol):
    def server_of(self, name: str) -> str:
        """Return the configured name of a tool's server."""
        ...

    async def call(self, name: str, arguments: str) -> McpOutcome:
        """Run a tool. What goes wrong is an outcome with an error."""
        ...


@dataclass(frozen=True)
class Listing:
    """The tools of one entry of a request."""

    servers: McpServers
    tools: tuple[ListedTool, ...] = ()
    error: str | None = None
    """Why there are none."""


@dataclass(frozen=True)
class McpListings(Provision):
    is_long: ClassVar[bool] = True
    by_path: Mapping[str, Listing]
    """What the MCP servers of a request offer, by the paths of their entries."""


def listing_of(client: Client, path: str) -> Listing | None:
    """Return what the MCP server of an entry offers; None if the gateway has no such server."""
    listings = client.find(McpListings)
    return None if listings is None else listings.by_path.get(path)


@dataclass(frozen=True)
class McpTool:
    """One tool, for one request."""

    name: str
    servers: McpServers
    approval: str | None = None

    @property
    def label(self) -> ToolLabel:
        return ToolLabel("mcp", self.name, self.servers.server_of(self.name))

    async def run(self, arguments: str) -> GatewayResult:
        """Call the server."""
        return self._result(await self.servers.call(self.name, arguments))

    def refused(self, reason: str) -> GatewayResult:
        """Return the result of a call that the server does not get."""
        return self._result(McpOutcome(error=reason, failure="refused"))

    def _result(self, outcome: McpOutcome) -> GatewayResult:
        outcome = replace(outcome, approval=self.approval)
        result: CallResult = "ok" if outcome.error is None else outcome.failure
        return GatewayResult(outcome.text, outcome, result=result)


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
    listed: bool = False
    """Whether an earlier response of the conversation has listed the same tools."""

    def is_list(self, item: Mapping[str, Any]) -> bool:
        """Return whether an earlier item has the tools that the server offers now."""
        listed, names = item.get("tools"), [tool.name for tool in self.allowed]
        if not isinstance(listed, list) or not names or item.get("server_label") != self.label:
            return False
        return [each.get("name") for each in listed if isinstance(each, dict)] == names

    def entries(self, path: str, *, deferred: bool) -> list[OfferedTool]:
        """Return the tools that the model is offered. `path`: of the entry."""
        return [function_entry(path, each.function(), deferred=deferred) for each in self.allowed]

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
    fields.check_known(FIELDS)
    label = fields.text("server_label") or ""
    if labelled and not label:
        raise fields.wrong("server_label", "the name of the server in this request")
    allowed_tools = fields.values.get("allowed_tools")
    filters = {"tool_names": allowed_tools} if isinstance(allowed_tools, list) else allowed_tools
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
