"""Collects the events of one response in output items, and makes the events that announce them.

A stream sends those events, and a complete response has the items, so the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from toolgate_core.deltas import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    ContentDelta,
    Finish,
    InputDelta,
    ReasoningDelta,
)

from ....chat.choice import GatewayCallRan, TokenIds
from ....chat.compaction.compacted import Compacted, sealed
from ....chat.response import ChatResponse, ResponseEvent
from ....sealing import OwnerSeal
from ...shared.mcp import McpEntry
from ...shared.tool_search import Found
from ...shared.web_search import NAME as WEB_SEARCH
from ...shared.web_search import FoundPages, Results
from ..builtin_tools.table import BY_TYPE
from ..tools import SEARCH, found
from .calls import CUSTOM, FUNCTION, BuiltinCall, CallItem, Execution, SearchCallItem
from .gateway_calls import (
    ApprovalItem,
    McpCallItem,
    McpListItem,
    SearchOutputItem,
    WebSearchCallItem,
)
from .items import MESSAGE, REASONING, SUMMARY, CompactionItem, Event, TextItem, TextKind

Ran = WebSearchCallItem | McpCallItem
"""Calls that the gateway runs."""
Whole = BuiltinCall | ApprovalItem
"""Calls that have no events before they are complete."""
Call = CallItem | SearchCallItem | Ran | Whole
Open = TextItem | Call
Item = Open | SearchOutputItem | CompactionItem | McpListItem


class Output:
    """`summarized`: send the reasoning as its summary. `seal`: of the client."""

    def __init__(
        self, response: ChatResponse, *, summarized: bool, seal: OwnerSeal | None = None
    ) -> None:
        self._response = response
        self._seal = seal
        self._reasoning = SUMMARY if summarized else REASONING
        self._search: Execution | None = response.request.repeated.get("search")
        self._builtins: frozenset[str] = response.request.repeated.get("builtins", frozenset())
        self._items: list[Item] = []
        servers: Sequence[McpEntry] = response.request.repeated.get("mcp", ())
        self._mcp = {tool.name: entry for entry in servers for tool in entry.allowed}
        self._unlisted = [server for server in servers if not server.listed]
        """The MCP servers whose tools the conversation has not listed yet."""
        self._pages = FoundPages()
        self._running: dict[int, Ran] = {}
        """The calls that the gateway runs, by their indexes."""
        self._open: Open | None = None
        self.finish: Finish | None = None
        self.token_ids: list[int] = []

    def items(self) -> list[dict[str, Any]]:
        return [item.body() for item in self._items]

    def add(self, events: Iterable[ResponseEvent]) -> Iterator[Event]:
        yield from self._lists()
        for each in events:
            match each.event:
                case ReasoningDelta() as delta if delta.text or self._is_open(self._reasoning):
                    yield from self._add_text(self._reasoning, delta)
                case ContentDelta() as delta:
                    yield from self._add_text(MESSAGE, delta)
                case CallStart() as start:
                    yield from self._close()
                    yield from self._begin(self._call(start))
                case ArgumentsDelta() | InputDelta() as delta:
                    assert isinstance(self._open, Call)
                    yield from self._open.add(delta)
                case CallEnd():
                    assert isinstance(self._open, Call)
                    yield from self._open.end()
                    self._open = None
                case GatewayCallRan(start, shown) if start.index in self._running:
                    if isinstance(shown, Results):
                        self._pages.add(shown.pages)
                    yield from self._running.pop(start.index).ran(shown)
                case GatewayCallRan(start, Found(names)):
                    yield from self._found(self._response.call_id(start), names)
                case TokenIds(ids):
                    self.token_ids += ids
                case Compacted() as made:
                    text = sealed(made, self._seal)
                    item = CompactionItem(self._response.head.id, len(self._items), text)
                    self._items.append(item)
                    yield from item.events()
                case Finish() as finish:
                    yield from self._finish(finish)

    def _call(self, start: CallStart) -> Call:
        response_id, call_id = self._response.head.id, self._response.call_id(start)
        if start.name == WEB_SEARCH and start.name in self._response.request.gateway_tools:
            self._running[start.index] = WebSearchCallItem(response_id, len(self._items), call_id)
            return self._running[start.index]
        if (server := self._mcp.get(start.name)) is not None:
            place = (response_id, len(self._items), start.name, server.label)
            if start.index >= 0 and start.name not in server.approved:
                return ApprovalItem(*place)
            self._running[start.index] = McpCallItem(*place)
            return self._running[start.index]
        if self._search is not None and start.name == SEARCH:
            return SearchCallItem(response_id, len(self._items), call_id, self._search)
        if start.name in self._builtins:
            return BuiltinCall(response_id, len(self._items), BY_TYPE[start.name], call_id)
        tools = self._response.sent.tools  # with those that a search has found
        namespace = next((tool.namespace for tool in tools if tool.name == start.name), "")
        return CallItem(
            kind=CUSTOM if start.custom else FUNCTION,
            response_id=response_id,
            index=len(self._items),
            name=start.name.removeprefix(f"{namespace}.") if namespace else start.name,
            call_id=call_id,
            namespace=namespace,
        )

    def _lists(self) -> Iterator[Event]:
        """List the tools of MCP servers, before everything else."""
        while self._unlisted:
            server = self._unlisted.pop(0)
            item = McpListItem(self._response.head.id, len(self._items), server.item())
            self._items.append(item)
            yield from item.events()

    def _found(self, call_id: str, names: Iterable[str]) -> Iterator[Event]:
        tools = found(self._response.request.repeated["tools"], frozenset(names))
        item = SearchOutputItem(self._response.head.id, len(self._items), call_id, tools)
        self._items.append(item)
        yield from item.begin()

    def interrupt(self) -> None:
        """Marks the open item as incomplete, after an error."""
        if isinstance(self._open, Whole):
            self._items.pop()  # no event has announced it
        elif self._open is not None:
            self._open.status = "incomplete"
        self._open = None

    def _finish(self, finish: Finish) -> Iterator[Event]:
        self.finish = finish
        if isinstance(self._open, Call):
            self.interrupt()  # cut: no event says that it ended
        if not self._items:
            yield from self._begin(TextItem(MESSAGE, self._response.head.id, 0))
        yield from self._close(incomplete=finish.reason == "length")

    def _add_text(self, kind: TextKind, delta: ContentDelta | ReasoningDelta) -> Iterator[Event]:
        if not self._is_open(kind):
            yield from self._close()
            item = TextItem(kind, self._response.head.id, len(self._items))
            if kind is MESSAGE:
                item.pages = self._pages
            else:
                item.seal = self._response.request.sign_reasoning
            yield from self._begin(item)
        assert isinstance(self._open, TextItem)
        yield from self._open.add(delta)

    def _is_open(self, kind: TextKind) -> bool:
        return isinstance(self._open, TextItem) and self._open.kind is kind

    def _begin(self, item: Open) -> Iterator[Event]:
        self._items.append(item)
        self._open = item
        yield from item.begin()

    def _close(self, *, incomplete: bool = False) -> Iterator[Event]:
        if isinstance(self._open, TextItem):
            yield from self._open.end("incomplete" if incomplete else "completed")
        self._open = None
