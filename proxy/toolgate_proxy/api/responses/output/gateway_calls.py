"""Items of what the gateway runs: calls of MCP servers, and what a search for tools
has found. MCP servers also have items with their tools, and with requests for approval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from toolgate_core.deltas import ArgumentsDelta, InputDelta

from ...shared.mcp import McpOutcome
from .items import Call, Event, Item, item_added, item_done


@dataclass
class McpListItem(Item):
    PREFIX = "mcpl"
    list: Mapping[str, Any]
    """The item without its id."""

    def begin(self) -> Iterator[Event]:
        last = "failed" if "error" in self.list else "completed"
        yield item_added(self.index, self.body())
        yield self.event("response.mcp_list_tools.in_progress")
        yield self.event(f"response.mcp_list_tools.{last}")
        yield item_done(self.index, self.body())

    def body(self) -> dict[str, Any]:
        return {"id": self.id, **self.list}


@dataclass
class McpCallItem(Call):
    """It is completed by its outcome. One that is cut stays without its `done` event."""

    PREFIX = "mcp"
    runs = True
    name: str
    label: str
    _outcome: McpOutcome | None = None

    def begin(self) -> Iterator[Event]:
        yield from super().begin()
        yield self.event("response.mcp_call.in_progress")

    def add(self, event: ArgumentsDelta | InputDelta) -> Iterator[Event]:
        self._arguments.append(event.text)
        if event.text:
            yield self.event("response.mcp_call_arguments.delta", delta=event.text)

    def end(self) -> Iterator[Event]:
        """The call is complete and valid, and the server runs it."""
        yield self.event("response.mcp_call_arguments.done", arguments=self.arguments)

    def ran(self, shown: Any) -> Iterator[Event]:
        """The server has run the call."""
        outcome: McpOutcome = shown
        self.status, self._outcome = "completed", outcome
        ended = "completed" if outcome.error is None else "failed"
        yield self.event(f"response.mcp_call.{ended}")
        yield item_done(self.index, self.body())

    def body(self) -> dict[str, Any]:
        made = self._outcome or McpOutcome()
        status = "failed" if made.error is not None else self.status
        return {
            "id": self.id,
            "type": "mcp_call",
            "status": status,
            "server_label": self.label,
            "name": self.name,
            "arguments": self.arguments,
            "output": made.output,
            "error": made.error,
            "approval_request_id": made.approval,
        }


@dataclass
class ApprovalItem(Call):
    """A call that needs an approval. It has no events before it is complete and valid: one that is
    cut is no part of the response."""

    PREFIX = "mcpr"
    announced = False
    name: str
    label: str

    def body(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": "mcp_approval_request",
            "server_label": self.label,
            "name": self.name,
            "arguments": self.arguments,
        }


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
