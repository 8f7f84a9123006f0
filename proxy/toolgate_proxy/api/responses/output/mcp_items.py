"""The items of MCP servers: lists of tools, calls, and requests for approval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from toolgate_core.deltas import ArgumentsDelta, InputDelta

from ...shared.mcp import McpOutcome
from ..state.item_ids import item_id
from .items import Event, SilentCall, item_added, item_done


@dataclass(frozen=True)
class McpListItem:
    response_id: str
    index: int
    list: Mapping[str, Any]
    """The item without its id."""

    def events(self) -> Iterator[Event]:
        item, at = self.body(), self.index
        place = {"output_index": at, "item_id": item["id"]}
        last = "failed" if "error" in item else "completed"
        yield item_added(at, item)
        yield {"type": "response.mcp_list_tools.in_progress", **place}
        yield {"type": f"response.mcp_list_tools.{last}", **place}
        yield item_done(at, item)

    def body(self) -> dict[str, Any]:
        return {"id": item_id("mcpl", self.response_id, self.index), **self.list}


@dataclass
class McpCallItem(SilentCall):
    """It is completed by its outcome. One that is cut stays without its `done` event."""

    PREFIX = "mcp"
    name: str
    label: str
    _outcome: McpOutcome | None = None

    def begin(self) -> Iterator[Event]:
        yield item_added(self.index, self.body())
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
class ApprovalItem(SilentCall):
    """A call that needs an approval. It has no events before it is complete and valid: one that is
    cut is no part of the response."""

    PREFIX = "mcpr"
    name: str
    label: str

    def begin(self) -> Iterator[Event]:
        yield from ()

    def end(self) -> Iterator[Event]:
        """The call is complete and valid."""
        self.status = "completed"
        yield item_added(self.index, self.body())
        yield item_done(self.index, self.body())

    def body(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": "mcp_approval_request",
            "server_label": self.label,
            "name": self.name,
            "arguments": self.arguments,
        }
