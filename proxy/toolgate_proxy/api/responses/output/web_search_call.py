"""The item of a web search that the gateway runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from toolgate_core.deltas import ArgumentsDelta, InputDelta

from ...shared.web_search import QUERY, Results
from ..state.item_ids import item_id
from .items import Event, Status, item_added, item_done


@dataclass
class WebSearchCallItem:
    """It is completed by its results. One that is cut stays without a query and without its `done`
    event."""

    response_id: str
    index: int
    call_id: str
    status: Status = "in_progress"
    _arguments: list[str] = field(default_factory=list)
    _query: str = ""
    _results: Results | None = None

    @property
    def id(self) -> str:
        return item_id("ws", self.response_id, self.index)

    def begin(self) -> Iterator[Event]:
        yield item_added(self.index, self.body())
        yield self._progress("in_progress")

    def add(self, event: ArgumentsDelta | InputDelta) -> Iterator[Event]:
        self._arguments.append(event.text)
        yield from ()

    def end(self) -> Iterator[Event]:
        """The call is complete and valid, and the search runs."""
        self._query = json.loads("".join(self._arguments))[QUERY]
        yield self._progress("searching")

    def ran(self, shown: Any) -> Iterator[Event]:
        """The search has ended."""
        self.status, self._results = "completed", shown
        yield self._progress("completed")
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

    def _progress(self, step: str) -> Event:
        return {
            "type": f"response.web_search_call.{step}",
            "output_index": self.index,
            "item_id": self.id,
        }
