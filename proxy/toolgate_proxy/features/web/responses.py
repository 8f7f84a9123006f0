"""Web search in the Responses API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from toolgate_core.deltas import CallStart

from ...api.responses.feature import ResponsesFeature, ResponsesOutput
from ...api.responses.output_items import CallItem, Event, GatewayCallItem
from ...api.responses.turns import ItemTurns
from ...api.shared.tools import EchoedTool, ReadTool, function_entry
from ...chat.response import ChatResponse
from ...request.gateway_tools import GatewayTool
from ...request_fields import Fields
from .search import (
    FUNCTION,
    NAME,
    QUERY,
    Domains,
    FoundPages,
    SearchEngine,
    SearchResults,
    WebPage,
    WebSearch,
    opened,
    read_domains,
    results_text,
)

REPEATED = ("type", "filters", "search_context_size", "user_location")
ITEM = "web_search_call"


class ResponsesWebOutput(ResponsesOutput):
    def __init__(self, feature: WebInResponses, response: ChatResponse) -> None:
        super().__init__(feature, response)
        self._is_offered = NAME in response.request.gateway_tools
        self._pages = FoundPages()

    def call(self, start: CallStart, call_id: str) -> CallItem | None:
        is_own = self._is_offered and start.name == NAME
        return WebSearchCall(call_id, self._pages) if is_own else None

    def annotations(self, text: str) -> Iterator[Event]:
        for citation in self._pages.cited(text):
            yield {
                "type": "url_citation",
                "start_index": citation.start,
                "end_index": citation.end,
                "url": citation.page.url,
                "title": citation.page.title,
            }


class WebInResponses(ResponsesFeature):
    TYPES = re.compile(r"web_search(?:_2025_08_26|_preview(?:_2025_03_11)?)?")
    ITEMS: ClassVar = {ITEM: "ws"}
    FIELDS: ClassVar = {ITEM: ("action", "call_id", "encrypted_content")}
    STATUS = (ITEM,)
    OUTPUT = ResponsesWebOutput
    _search: WebSearch | None = None

    def take(self, entry: Fields) -> ReadTool | None:
        """Further members have no effect: the search engine is the operator's."""
        engine = self.input.client.find(SearchEngine)
        if engine is None:
            return None
        filters = Fields(entry.mapping("filters") or {}, entry.path("filters"))
        domains = Domains(read_domains(filters, "allowed_domains"))
        self._search = WebSearch(engine, self.input.client.seal, domains)
        shown = EchoedTool({name: entry.values.get(name) for name in REPEATED}, NAME)
        return ReadTool([function_entry(entry.place, FUNCTION)], shown)

    def chosen(self, choice: Fields) -> str | None:
        return None if self._search is None else NAME

    def runners(self) -> dict[str, GatewayTool]:
        return {} if self._search is None else {NAME: self._search}

    def read_back(self, item: Fields, kind: str, turns: ItemTurns) -> bool:
        """Read a search with its result. What was found is encrypted for its owner; otherwise the
        addresses of the sources are all that is known."""
        action = item.mapping("action") or {}
        text = opened(self.input.client.seal, item.values.get("encrypted_content"))
        if text is None:
            sources = action.get("sources")
            urls = [each.get("url") for each in sources or () if isinstance(each, dict)]
            pages = [WebPage(url, url, "") for url in urls if isinstance(url, str)]
            turns.history.note("as_text" if pages else "left_out", item.place)
            if not pages:
                return True
            text = results_text(pages)
        query = action.get("query")
        arguments = json.dumps({QUERY: query if isinstance(query, str) else ""}, ensure_ascii=False)
        call_id = item.text("call_id") or item.text("id") or f"web_{turns.count}"
        turns.call(call_id, NAME, arguments, item.place)
        turns.result(call_id, text, item.place)
        return True


@dataclass
class WebSearchCall(GatewayCallItem):
    """The item of a search with its results. One that is cut stays without a query."""

    PREFIX = "ws"
    EVENTS = "response.web_search_call"
    call_id: str
    pages: FoundPages
    """Of the response so far."""
    _query: str = ""
    _results: SearchResults | None = None

    def end(self) -> Iterator[Event]:
        """End the call, which is complete and valid: the search runs."""
        self._query = json.loads(self.arguments)[QUERY]
        yield self.event("response.web_search_call.searching")

    def ending(self, shown: SearchResults) -> str:
        self.pages.add(shown.pages)
        self._results = shown
        return "completed"

    def body(self) -> dict[str, Any]:
        """`call_id` and `encrypted_content`, with which the next turn has the results, are not in
        OpenAI's form."""
        action: dict[str, Any] = {"type": "search", "query": self._query}
        status = "failed" if self.status == "incomplete" else self.status
        item = {"id": self.id, "type": ITEM, "status": status, "action": action}
        if self._results is None:
            return item
        action["sources"] = [{"type": "url", "url": page.url} for page in self._results.pages]
        return {**item, "call_id": self.call_id, "encrypted_content": self._results.sealed}
