"""The shells and `apply_patch` of the Responses API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from toolgate_core.deltas import CallStart

from ...api.responses.feature import (
    ResponsesFeature,
    ResponsesOutput,
    check_entry,
    repeated_entry,
)
from ...api.responses.output_items import CallItem, Event, item_added, item_done, item_id
from ...api.responses.turns import ItemTurns
from ...api.shared.tools import EchoedTool, ReadTool, function_entry
from ...request_fields import Fields
from ..feature import FeatureInput
from .builtin import APPLY_PATCH, LOCAL_SHELL, SHELL, BuiltinTool, Member

BUILTIN_TOOLS = (SHELL, LOCAL_SHELL, APPLY_PATCH)
BY_TYPE = {tool.type: tool for tool in BUILTIN_TOOLS}
CALLS = {tool.call: tool for tool in BUILTIN_TOOLS}
OUTPUTS = {tool.output: tool for tool in BUILTIN_TOOLS}
IDS = ("call_id", "id")
"""Members that may have the id of the call. That of `local_shell` was `id`."""
COMMON = ("type", "status", *IDS, "caller", "created_by")
CALL_FIELDS = (*COMMON, "environment")
OUTPUT_FIELDS = (*COMMON, "output", "max_output_length")


class ResponsesClientToolsOutput(ResponsesOutput):
    feature: ClientToolsInResponses

    def call(self, start: CallStart, call_id: str) -> CallItem | None:
        is_own = start.name in self.feature.offered
        return BuiltinCall(BY_TYPE[start.name], call_id) if is_own else None


class ClientToolsInResponses(ResponsesFeature):
    TYPES = re.compile("|".join(BY_TYPE))
    ITEMS: ClassVar = dict.fromkeys((*CALLS, *OUTPUTS), "item")
    CHOICES = tuple(BY_TYPE)
    OUTPUT = ResponsesClientToolsOutput

    def __init__(self, feature_input: FeatureInput) -> None:
        super().__init__(feature_input)
        self.offered: set[str] = set()
        """Their types, which are their names."""

    def take(self, entry: Fields) -> ReadTool | None:
        """Read the entry, unless OpenAI runs its tool."""
        tool = BY_TYPE[entry.values["type"]]
        if not tool.is_client_run(entry.values):
            return None
        fields = ("type", *tool.fields)
        check_entry(entry, fields)
        self.offered.add(tool.type)
        shown = EchoedTool(repeated_entry(entry.values, fields), tool.type)
        return ReadTool([function_entry(entry.place, tool.function(entry))], shown)

    def chosen(self, choice: Fields) -> str:
        return str(choice.values["type"])

    def read_back(self, item: Fields, kind: str, turns: ItemTurns) -> bool:
        """Damaged items are not read."""
        ids = (item.values.get(name) for name in IDS)
        call_id = next((each for each in ids if isinstance(each, str) and each), None)
        if call_id is None:
            return False
        if (tool := OUTPUTS.get(kind)) is not None:
            turns.history.note_unknown(item, OUTPUT_FIELDS)
            if turns.has_call(call_id):
                turns.result(call_id, tool.to_text(item.values), item.place)
            return turns.has_call(call_id)
        tool = CALLS[kind]
        member = item.values.get(tool.member)
        if not isinstance(member, dict):
            return False
        turns.history.note_unknown(item, (*CALL_FIELDS, tool.member))
        arguments = json.dumps(tool.to_arguments(member), ensure_ascii=False)
        turns.call(call_id, tool.type, arguments, item.place)
        return True


@dataclass
class BuiltinCall(CallItem):
    """The item of a call of a shell or of `apply_patch`. It is sent when the call is complete and
    valid: clients run what an item has, and the beginning of a command or patch is another one."""

    announced = False
    tool: BuiltinTool
    call_id: str
    _member: Member = field(default_factory=dict, init=False)

    @property
    def id(self) -> str:
        return item_id(self.tool.prefix, self.response_id, self.index)

    def end(self) -> Iterator[Event]:
        """End the call, which is complete and valid."""
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
