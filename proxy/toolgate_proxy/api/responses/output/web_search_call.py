"""The item of a web search that the gateway runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...shared.web_search import QUERY, Results
from .items import Event, SilentCall, item_added, item_done


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
