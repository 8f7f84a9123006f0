"""Items of calls of functions and custom tools."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from toolgate_core.deltas import ArgumentsDelta, InputDelta

from ..output_items import Call, Event, item_done, item_id


@dataclass(frozen=True)
class CallKind:
    """A call of one kind of tool."""

    type: str
    prefix: str
    """Beginning of the item's id."""
    text: str
    """The item's field that has the arguments."""
    text_delta: str
    text_done: str
    """Types of the events that have the arguments."""
    named: bool
    """Whether the event that the arguments are complete has the tool's name."""


FUNCTION = CallKind(
    type="function_call",
    prefix="fc",
    text="arguments",
    text_delta="response.function_call_arguments.delta",
    text_done="response.function_call_arguments.done",
    named=True,
)
CUSTOM = CallKind(
    type="custom_tool_call",
    prefix="ctc",
    text="input",
    text_delta="response.custom_tool_call_input.delta",
    text_done="response.custom_tool_call_input.done",
    named=False,
)


@dataclass
class CallItem(Call):
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
        self._arguments.append(event.text)
        if event.text:
            yield {
                "type": self.kind.text_delta,
                "item_id": self.id,
                "output_index": self.index,
                "delta": event.text,
            }

    def end(self) -> Iterator[Event]:
        """The call is complete and valid."""
        self.status = "completed"
        yield {
            "type": self.kind.text_done,
            "item_id": self.id,
            "output_index": self.index,
            **({"name": self.name} if self.kind.named else {}),
            self.kind.text: self.arguments,
        }
        yield item_done(self.index, self.body())

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
