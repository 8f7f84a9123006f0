"""Tools that the gateway runs inside a turn: after a call, the turn goes on in one response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .tools import Tool


@dataclass(frozen=True)
class GatewayResult:
    """The result of a call."""

    content: str | Sequence[dict[str, Any]]
    """What the model sees: the content of the message with the result."""
    shown: Any
    """What the client sees, for the API's output."""
    tools: tuple[Tool, ...] | None = None
    """The tools that can be called from here on; None: the same as before."""


class GatewayTool(Protocol):
    async def run(self, arguments: str) -> GatewayResult:
        """Return the result of a call. `arguments`: JSON that is valid against the tool's schema.
        What goes wrong in the tool is a result that says so: the model can go on."""
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
