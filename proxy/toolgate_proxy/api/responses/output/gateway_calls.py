"""Items of what the gateway runs: web searches, calls of MCP servers, and what a search for tools
has found. MCP servers also have items with their tools, and with requests for approval."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from toolgate_core.deltas import ArgumentsDelta, InputDelta

from ...shared.mcp import McpOutcome
from ...shared.web_search import QUERY, Results
from ..state import item_id
from .calls import SilentCall
from .items import Event, Status, item_added, item_done


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


@dataclass
class WebSearchCallItem(SilentCall):
    """It is completed by its results. One that is cut stays without a query and without its `done`
    event."""

    PREFIX = "ws"
    call_id: str
    _query: str = ""
    _results: Results | None = None

    def begin(self) -> Iterator[Event]:
        yield item_added(self.index, self.body())
        yield self.event("response.web_search_call.in_progress")

    def end(self) -> Iterator[Event]:
        """The call is complete and valid, and the search runs."""
        self._query = json.loads(self.arguments)[QUERY]
        yield self.event("response.web_search_call.searching")

    def ran(self, shown: Any) -> Iterator[Event]:
        """The search has ended."""
        self.status, self._results = "completed", shown
        yield self.event("response.web_search_call.completed")
        yield item_done(self.index, self.body())

    def body(self) -> dict[str, Any]:
        """`call_id` and `encrypted_content`, with which the next turn has the results, are not in
        OpenAI's form."""
        action: dict[str, Any] = {"type": "search", "query": self._query}
        status = "failed" if self.status == "incomplete" else self.status
        item = {"id": self.id, "type": "web_search_call", "status": status, "action": action}
        if self._results is None:
            return item
        action["sources"] = [{"type": "url", "url": page.url} for page in self._results.pages]
        return {**item, "call_id": self.call_id, "encrypted_content": self._results.sealed}


@dataclass
class SearchOutputItem:
    """It is sent as a whole."""

    response_id: str
    index: int
    call_id: str
    tools: list[dict[str, Any]]
    """In the form of the request's tools."""
    status: Status = "completed"

    def begin(self) -> Iterator[Event]:
        yield item_added(self.index, self.body())
        yield item_done(self.index, self.body())

    def body(self) -> dict[str, Any]:
        return {
            "id": item_id("tso", self.response_id, self.index),
            "type": "tool_search_output",
            "status": self.status,
            "execution": "server",
            "call_id": self.call_id,
            "tools": self.tools,
        }
