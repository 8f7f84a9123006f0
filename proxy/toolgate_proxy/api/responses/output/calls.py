"""Items of calls: of functions, custom tools and built-in tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from toolgate_core.deltas import ArgumentsDelta, InputDelta

from ..builtin_tools.tool import BuiltinTool, Member
from .items import Call, Event, item_added, item_done, item_id


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


@dataclass
class BuiltinCall(Call):
    """Its events are sent when the call is complete and valid, because its members have to be known
    at the beginning. A call that is cut has no events and is no part of a response: clients run
    what an item has, and the beginning of a command or of a patch is another one."""

    announced = False
    tool: BuiltinTool
    call_id: str
    _member: Member = field(default_factory=dict, init=False)

    @property
    def id(self) -> str:
        return item_id(self.tool.prefix, self.response_id, self.index)

    def end(self) -> Iterator[Event]:
        """The call is complete and valid."""
        tool = self.tool
        self._member = tool.to_member(json.loads(self.arguments))
        begun = {**self.body(), tool.member: tool.begun(self._member)}
        yield item_added(self.index, begun)
        for event in tool.deltas(self._member):
            yield {**event, "item_id": self.id, "output_index": self.index}
        self.status = "completed"
        yield item_done(self.index, self.body())

    def body(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": self.tool.call,
            "status": self.status,
            "call_id": self.call_id,
            self.tool.member: self._member,
            **self.tool.more,
        }
