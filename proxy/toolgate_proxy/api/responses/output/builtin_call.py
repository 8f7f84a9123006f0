"""The item of a call of a built-in tool."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..builtin_tools.tool import BuiltinTool, Member
from ..state.item_ids import item_id
from .items import Event, SilentCall, item_added, item_done


@dataclass
class BuiltinCall(SilentCall):
    """Its events are sent when the call is complete and valid, because its members have to be known
    at the beginning. A call that is cut has no events and is no part of a response: clients run
    what an item has, and the beginning of a command or of a patch is another one."""

    tool: BuiltinTool
    call_id: str
    _member: Member = field(default_factory=dict, init=False)

    @property
    def id(self) -> str:
        return item_id(self.tool.prefix, self.response_id, self.index)

    def begin(self) -> Iterator[Event]:
        yield from ()

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
