"""Tools of MCP servers that the gateway runs: what a server offers, and the result of a call.

The servers are the operator's: those of LiteLLM's configuration or database that the key may use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from toolgate_core.gateway_tools import CallResult, GatewayResult, ToolLabel

MAX_RESULT = 100_000
"""Most characters of a result."""
EMPTY = "[no output]"


@dataclass(frozen=True)
class ListedTool:
    """A tool as its server describes it."""

    name: str
    """The name that the model sees. LiteLLM puts that of the server before it."""
    description: str
    schema: Any
    annotations: Mapping[str, Any] | None = None

    @property
    def only_reads(self) -> bool:
        """Whether the server says that the tool changes nothing."""
        return (self.annotations or {}).get("readOnlyHint") is True

    def is_called(self, name: object) -> bool:
        """Return whether a client means the tool by a name, which may be without the server's."""
        return isinstance(name, str) and (self.name == name or self.name.endswith(f"-{name}"))

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

    def _result(self, made: McpOutcome) -> GatewayResult:
        outcome = replace(
            made,
            output=None if made.output is None else made.output[:MAX_RESULT],
            error=None if made.error is None else made.error[:MAX_RESULT],
            approval=self.approval,
        )
        result: CallResult = "ok" if outcome.error is None else outcome.failure
        return GatewayResult(outcome.text, outcome, result=result)
