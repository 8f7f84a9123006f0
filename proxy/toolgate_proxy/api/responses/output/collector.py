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

from ....chat.choice import FeatureEvent, GatewayCallRan, TokenIds
from ....chat.response import ChatResponse, ResponseEvent
from ..feature import written_of
from ..output_items import (
    MESSAGE,
    REASONING,
    SUMMARY,
    Call,
    Event,
    Item,
    TextItem,
    TextKind,
)
from .calls import CUSTOM, FUNCTION, CallItem


class Output:
    """`summarized`: send the reasoning as its summary."""

    def __init__(self, response: ChatResponse, *, summarized: bool) -> None:
        self._response = response
        self._reasoning = SUMMARY if summarized else REASONING
        self._items: list[Item] = []
        self._written = written_of(response.request)
        made = (feature.output(response) for feature in self._written.features)
        self._features = [each for each in made if each is not None]
        self._first = [item for each in self._features for item in each.first()]
        """The items that are before everything else."""
        self._running: dict[int, Call] = {}
        """The calls that the gateway runs, by their indexes."""
        self._open: TextItem | Call | None = None
        self.finish: Finish | None = None
        self.token_ids: list[int] = []

    def items(self) -> list[dict[str, Any]]:
        return [item.body() for item in self._items]

    def add(self, events: Iterable[ResponseEvent]) -> Iterator[Event]:
        while self._first:
            yield from self._add(self._first.pop(0))
        for each in events:
            match each.event:
                case ReasoningDelta() as delta if delta.text or self._is_open(self._reasoning):
                    yield from self._add_text(self._reasoning, delta)
                case ContentDelta() as delta:
                    yield from self._add_text(MESSAGE, delta)
                case CallStart() as start:
                    yield from self._close()
                    call = self._call(start)
                    if call.runs:
                        self._running[start.index] = call
                    yield from self._begin(call)
                case ArgumentsDelta() | InputDelta() as delta:
                    assert isinstance(self._open, Call)
                    yield from self._open.add(delta)
                case CallEnd():
                    assert isinstance(self._open, Call)
                    yield from self._open.end()
                    self._open = None
                case GatewayCallRan(start, shown) if start.index in self._running:
                    yield from self._running.pop(start.index).ran(shown)
                case GatewayCallRan() | FeatureEvent() as event:
                    for feature in self._features:
                        if (item := feature.item(event)) is not None:
                            yield from self._add(item)
                case TokenIds(ids):
                    self.token_ids += ids
                case Finish() as finish:
                    yield from self._finish(finish)

    def _call(self, start: CallStart) -> Call:
        call_id = self._response.call_id(start)
        for feature in self._features:
            if (call := feature.call(start, call_id)) is not None:
                return call
        tools = self._response.sent.tools  # with those that a search has found
        namespace = next((tool.namespace for tool in tools if tool.name == start.name), "")
        return CallItem(
            kind=CUSTOM if start.custom else FUNCTION,
            name=start.name.removeprefix(f"{namespace}.") if namespace else start.name,
            call_id=call_id,
            namespace=namespace,
        )

    def interrupt(self) -> None:
        """Marks the open item as incomplete, after an error."""
        if isinstance(self._open, Call) and not self._open.announced:
            self._items.pop()  # no event has announced it
        elif self._open is not None:
            self._open.status = "incomplete"
        self._open = None

    def _finish(self, finish: Finish) -> Iterator[Event]:
        self.finish = finish
        if isinstance(self._open, Call):
            self.interrupt()  # cut: no event says that it ended
        if not self._items:
            yield from self._begin(TextItem(MESSAGE))
        yield from self._close(incomplete=finish.reason == "length")

    def _add_text(self, kind: TextKind, delta: ContentDelta | ReasoningDelta) -> Iterator[Event]:
        if not self._is_open(kind):
            yield from self._close()
            item = TextItem(kind)
            if kind is MESSAGE:
                item.annotate = self._annotations
            else:
                item.seal = self._written.seal_reasoning
            yield from self._begin(item)
        assert isinstance(self._open, TextItem)
        yield from self._open.add(delta)

    def _is_open(self, kind: TextKind) -> bool:
        return isinstance(self._open, TextItem) and self._open.kind is kind

    def _annotations(self, text: str) -> Iterator[Event]:
        for feature in self._features:
            yield from feature.annotations(text)

    def _begin(self, item: TextItem | Call) -> Iterator[Event]:
        self._open = item
        yield from self._add(item)

    def _add(self, item: Item) -> Iterator[Event]:
        item.response_id, item.index = self._response.head.id, len(self._items)
        self._items.append(item)
        yield from item.begin()

    def _close(self, *, incomplete: bool = False) -> Iterator[Event]:
        if isinstance(self._open, TextItem):
            yield from self._open.end("incomplete" if incomplete else "completed")
        self._open = None
