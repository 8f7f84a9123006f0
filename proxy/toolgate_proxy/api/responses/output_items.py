"""The items of a response's output. Each item makes the events that announce it.

An event is a dict with its `type`. The stream adds the sequence number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from toolgate_core.deltas import ArgumentsDelta, ContentDelta, InputDelta, ReasoningDelta

from ..shared.output import token_logprobs

Event = dict[str, Any]
Status = Literal["in_progress", "completed", "incomplete"]


def item_id(prefix: str, response_id: str, index: int | str) -> str:
    """Return the id of an item: the same in a stream and in a complete response."""
    return f"{prefix}_{response_id.removeprefix('resp_')}_{index}"


def item_added(index: int, item: dict[str, Any]) -> Event:
    """Return the event that an item begins. `index`: its place in the output."""
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def item_done(index: int, item: dict[str, Any]) -> Event:
    """Return the event that an item is complete. `index`: its place in the output."""
    return {"type": "response.output_item.done", "output_index": index, "item": item}


@dataclass
class Item:
    """An item that is sent as a whole."""

    PREFIX: ClassVar[str] = ""
    """Beginning of its id."""
    response_id: str = field(default="", init=False)
    index: int = field(default=0, init=False)
    """Its place in the output."""
    status: Status = field(default="completed", init=False)

    @property
    def id(self) -> str:
        return item_id(self.PREFIX, self.response_id, self.index)

    def begin(self) -> Iterator[Event]:
        yield item_added(self.index, self.body())
        yield item_done(self.index, self.body())

    def body(self) -> dict[str, Any]:
        raise NotImplementedError

    def event(self, kind: str, **more: Any) -> Event:
        return {"type": kind, "item_id": self.id, "output_index": self.index, **more}


@dataclass
class CallItem(Item):
    """An item of a call, of whose arguments no event has a part."""

    announced: ClassVar[bool] = True
    """Whether an event says that it begins, before it is complete and valid. One without such an
    event is no part of the response if it is cut."""
    runs: ClassVar[bool] = False
    """Whether the gateway runs the call, which completes the item."""
    status: Status = field(default="in_progress", init=False)
    _arguments: list[str] = field(default_factory=list, init=False)

    @property
    def arguments(self) -> str:
        """What the model has written so far."""
        return "".join(self._arguments)

    def begin(self) -> Iterator[Event]:
        if self.announced:
            yield item_added(self.index, self.body())

    def add(self, event: ArgumentsDelta | InputDelta) -> Iterator[Event]:
        self._arguments.append(event.text)
        yield from ()

    def end(self) -> Iterator[Event]:
        """End the call, which is complete and valid."""
        self.status = "completed"
        if not self.announced:
            yield item_added(self.index, self.body())
        yield item_done(self.index, self.body())

    def ran(self, shown: Any) -> Iterator[Event]:
        """Take the result of a call that the gateway has run. `shown`: the result for the
        client."""
        yield from ()


@dataclass
class GatewayCallItem(CallItem):
    """A call that the gateway runs. It is completed by its result: one that is cut stays without
    its `done` event."""

    EVENTS: ClassVar[str]
    """Beginning of the types of its own events."""
    runs = True

    def begin(self) -> Iterator[Event]:
        yield from super().begin()
        yield self.event(f"{self.EVENTS}.in_progress")

    def ran(self, shown: Any) -> Iterator[Event]:
        self.status = "completed"
        yield self.event(f"{self.EVENTS}.{self.ending(shown)}")
        yield item_done(self.index, self.body())

    def ending(self, shown: Any) -> str:
        """Take the result. Return how the call ended."""
        raise NotImplementedError


@dataclass(frozen=True)
class TextKind:
    """An item with one part of text."""

    prefix: str
    """Beginning of the item's id."""
    item: dict[str, Any]
    """The item without its id and status. It is copied."""
    parts: str
    """The item's field that has the part."""
    part: dict[str, Any]
    """The part without its text."""
    part_event: str
    text_event: str
    """What the types of the events that announce the part and its text have between `response.` and
    `.added`, `.delta` or `.done`."""


MESSAGE = TextKind(
    prefix="msg",
    item={"type": "message", "role": "assistant", "content": []},
    parts="content",
    part={"type": "output_text", "annotations": [], "logprobs": []},
    part_event="content_part",
    text_event="output_text",
)
REASONING = TextKind(
    prefix="rs",
    item={"type": "reasoning", "summary": [], "content": []},
    parts="content",
    part={"type": "reasoning_text"},
    part_event="content_part",
    text_event="reasoning_text",
)
SUMMARY = TextKind(
    prefix="rs",
    item={"type": "reasoning", "summary": []},
    parts="summary",
    part={"type": "summary_text"},
    part_event="reasoning_summary_part",
    text_event="reasoning_summary_text",
)
"""The reasoning, for clients that ask for a summary."""


@dataclass
class TextItem(Item):
    """A message or the reasoning. `logprobs`: whether the message has logprobs."""

    kind: TextKind
    seal: Callable[[str], str] | None = None
    """Encrypts the reasoning, if the request asks for it."""
    annotate: Callable[[str], Iterable[Event]] = lambda _: ()
    """Returns the annotations of the text of a message."""
    status: Status = field(default="in_progress", init=False)
    _annotations: list[dict[str, Any]] = field(default_factory=list)
    _texts: list[str] = field(default_factory=list)
    _sealed: str | None = None
    _logprobs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def id(self) -> str:
        return item_id(self.kind.prefix, self.response_id, self.index)

    def begin(self) -> Iterator[Event]:
        empty = self._item([])
        yield item_added(self.index, empty)
        yield self._text_event(f"{self.kind.part_event}.added", {"part": self._part()})

    def add(self, event: ContentDelta | ReasoningDelta) -> Iterator[Event]:
        self._texts.append(event.text)
        more: Event = {"delta": event.text}
        if self.kind is MESSAGE:
            more["logprobs"] = token_logprobs(event.logprobs)
            self._logprobs += more["logprobs"]
        elif not event.text:
            return  # logprobs only
        yield self._text_event(f"{self.kind.text_event}.delta", more)

    def end(self, status: Status) -> Iterator[Event]:
        self.status = status
        for at, annotation in enumerate(self.annotate("".join(self._texts))):
            self._annotations.append(annotation)
            added = {"annotation_index": at, "annotation": annotation}
            yield self._text_event("output_text.annotation.added", added)
        part = self._part()
        if self.seal is not None:
            self._sealed = self.seal(part["text"])
        more: Event = {"text": part["text"]}
        if self.kind is MESSAGE:
            more["logprobs"] = self._logprobs
        yield self._text_event(f"{self.kind.text_event}.done", more)
        yield self._text_event(f"{self.kind.part_event}.done", {"part": part})
        yield item_done(self.index, self.body())

    def body(self) -> dict[str, Any]:
        return self._item([self._part()])

    def _item(self, parts: list[dict[str, Any]]) -> dict[str, Any]:
        kind = self.kind
        item = {"id": self.id, "status": self.status, **kind.item, kind.parts: parts}
        return item if self._sealed is None else {**item, "encrypted_content": self._sealed}

    def _part(self) -> dict[str, Any]:
        part = {**self.kind.part, "text": "".join(self._texts)}
        if self.kind is MESSAGE:
            part["annotations"] = [*self._annotations]
            part["logprobs"] = [*self._logprobs]
        return part

    def _text_event(self, kind: str, more: Event) -> Event:
        return self.event(f"response.{kind}", **{f"{self.kind.parts}_index": 0}, **more)


@dataclass(frozen=True)
class CallKind:
    """A call of one kind of tool."""

    type: str
    prefix: str
    """Beginning of the item's id."""
    text: str
    """The item's field that has the arguments."""
    event: str
    """Beginning of the types of the events that have the arguments."""
    named: bool
    """Whether the event that the arguments are complete has the tool's name."""


FUNCTION = CallKind(
    type="function_call",
    prefix="fc",
    text="arguments",
    event="response.function_call_arguments",
    named=True,
)


@dataclass
class ClientCallItem(CallItem):
    """A call of a tool. A call that is cut stays without its `done` events: clients execute
    a call when they see the item's."""

    kind: CallKind
    name: str
    call_id: str
    namespace: str

    @property
    def id(self) -> str:
        return item_id(self.kind.prefix, self.response_id, self.index)

    def add(self, event: ArgumentsDelta | InputDelta) -> Iterator[Event]:
        yield from super().add(event)
        if event.text:
            yield self.event(f"{self.kind.event}.delta", delta=event.text)

    def end(self) -> Iterator[Event]:
        named = {"name": self.name} if self.kind.named else {}
        yield self.event(f"{self.kind.event}.done", **named, **{self.kind.text: self.arguments})
        yield from super().end()

    def body(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": self.kind.type,
            "status": self.status,
            "call_id": self.call_id,
            "name": self.name,
            self.kind.text: self.arguments,
            **({"namespace": self.namespace} if self.namespace else {}),
        }
