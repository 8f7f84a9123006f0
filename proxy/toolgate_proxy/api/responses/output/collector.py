"""Collects the events of one response in output items, and makes the events that announce them.

A stream sends those events, and a complete response has the items, so the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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

from ....chat.choice import TokenIds
from ....chat.compaction.compacted import Compacted
from ....chat.compaction.sealed import sealed
from ....chat.response import ChatResponse, ResponseEvent
from ....sealing import OwnerSeal
from .compaction import CompactionItem
from .items import (
    CUSTOM,
    FUNCTION,
    MESSAGE,
    REASONING,
    SUMMARY,
    CallItem,
    Event,
    TextItem,
    TextKind,
)

Item = TextItem | CallItem | CompactionItem


class Output:
    """`summarized`: send the reasoning as its summary. `seal`: of the client."""

    def __init__(
        self, response: ChatResponse, *, summarized: bool, seal: OwnerSeal | None = None
    ) -> None:
        self._response = response
        self._seal = seal
        self._reasoning = SUMMARY if summarized else REASONING
        self._namespaces = {tool.name: tool.namespace for tool in response.request.tools}
        self._items: list[Item] = []
        self._open: TextItem | CallItem | None = None
        self.finish: Finish | None = None
        self.token_ids: list[int] = []

    def items(self) -> list[dict[str, Any]]:
        return [item.body() for item in self._items]

    def add(self, events: Iterable[ResponseEvent]) -> Iterator[Event]:
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
                    assert isinstance(self._open, CallItem)
                    yield from self._open.add(delta)
                case CallEnd():
                    assert isinstance(self._open, CallItem)
                    yield from self._open.end()
                    self._open = None
                case TokenIds(ids):
                    self.token_ids += ids
                case Compacted() as made:
                    text = sealed(made, self._seal)
                    item = CompactionItem(self._response.head.id, len(self._items), text)
                    self._items.append(item)
                    yield from item.events()
                case Finish() as finish:
                    yield from self._finish(finish)

    def _call(self, start: CallStart) -> CallItem:
        namespace = self._namespaces.get(start.name, "")
        return CallItem(
            kind=CUSTOM if start.custom else FUNCTION,
            response_id=self._response.head.id,
            index=len(self._items),
            name=start.name.removeprefix(f"{namespace}.") if namespace else start.name,
            call_id=self._response.call_id(start),
            namespace=namespace,
        )

    def interrupt(self) -> None:
        """Marks the open item as incomplete, after an error."""
        if self._open is not None:
            self._open.status = "incomplete"
            self._open = None

    def _finish(self, finish: Finish) -> Iterator[Event]:
        self.finish = finish
        if not self._items:
            yield from self._begin(TextItem(MESSAGE, self._response.head.id, 0))
        if isinstance(self._open, CallItem):
            self.interrupt()  # cut: no event says that it ended
        yield from self._close(incomplete=finish.reason == "length")

    def _add_text(self, kind: TextKind, delta: ContentDelta | ReasoningDelta) -> Iterator[Event]:
        if not self._is_open(kind):
            yield from self._close()
            seal = None if kind is MESSAGE else self._response.request.sign_reasoning
            yield from self._begin(
                TextItem(kind, self._response.head.id, len(self._items), seal=seal)
            )
        assert isinstance(self._open, TextItem)
        yield from self._open.add(delta)

    def _is_open(self, kind: TextKind) -> bool:
        return isinstance(self._open, TextItem) and self._open.kind is kind

    def _begin(self, item: TextItem | CallItem) -> Iterator[Event]:
        self._items.append(item)
        self._open = item
        yield from item.begin()

    def _close(self, *, incomplete: bool = False) -> Iterator[Event]:
        if isinstance(self._open, TextItem):
            yield from self._open.end("incomplete" if incomplete else "completed")
        self._open = None
