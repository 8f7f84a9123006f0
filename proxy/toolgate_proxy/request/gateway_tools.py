"""Tools that the gateway runs inside a turn: after a call, the turn goes on in one response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from toolgate_core.tools import Tool

CallResult = Literal["ok", "error", "refused", "timeout"]
"""`refused`: by a permission, a limit or a guardrail, so that it did not run."""


@dataclass(frozen=True)
class ToolLabel:
    """What metrics, spans and the log call a tool. All names are the operator's."""

    kind: str
    tool: str
    server: str = ""
    """The configured MCP server or search tool; empty for tools of the gateway itself."""
    counted: bool = True
    """Whether a call counts for the limits of the key."""
    shown: bool = True
    """Whether the client sees its calls."""


@dataclass(frozen=True)
class GatewayResult:
    """The result of a call."""

    content: str | Sequence[dict[str, Any]]
    """What the model sees: the content of the message with the result."""
    shown: object
    """What the client sees, for the API's output."""
    tools: tuple[Tool, ...] | None = None
    """The tools that can be called from here on; None: the same as before."""
    result: CallResult = "ok"


class GatewayTool(Protocol):
    @property
    def label(self) -> ToolLabel: ...

    async def run(self, arguments: str) -> GatewayResult:
        """Return the result of a call. `arguments`: JSON that is valid against the tool's schema.
        What goes wrong in the tool is a result that says so: the model can go on."""
        ...

    def refused(self, reason: str) -> GatewayResult:
        """Return the result of a call that does not run. `reason`: for the model."""
        ...


@dataclass
class PendingCall:
    """A call of an earlier response that the user has approved. It runs before the response."""

    name: str
    arguments: str
    tool: GatewayTool
    placeholder: str
    """The content of the message that the result replaces."""
    result: GatewayResult | None = None
    """Set once it ran: it does not run again if the request moves to another backend."""
