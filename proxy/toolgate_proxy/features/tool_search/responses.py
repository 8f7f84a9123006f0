"""The search for deferred tools in the Responses API, which the gateway or the client runs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from toolgate_core.deltas import CallStart

from ...api.responses.feature import ResponsesFeature, ResponsesOutput, chosen_of
from ...api.responses.output_items import CallItem, Item
from ...api.responses.turns import ItemTurns
from ...api.shared.tool_changes import ToolChanges
from ...api.shared.tools import EchoedTool, ReadTool, function_entry
from ...chat.choice import GatewayCallRan
from ...request.gateway_tools import GatewayTool
from ...request_fields import Fields, unknown_value
from .search import NOTHING_FOUND, FoundTools, ToolSearch, search_function

NAME = "tool_search"
"""Type of the tool, and the name of the function that the model sees."""
CALL, RESULT = "tool_search_call", "tool_search_output"
Execution = Literal["client", "server"]
"""Who runs the search."""
EXECUTIONS = ("client", "server")
REPEATED = ("type", "execution", "description", "parameters")
FOUND = ("function", "custom")
"""Types of tools that a search finds."""
INT64 = range(-(2**63), 2**63)


class ResponsesToolSearchOutput(ResponsesOutput):
    feature: SearchInResponses

    def call(self, start: CallStart, call_id: str) -> CallItem | None:
        execution = self.feature.execution
        return SearchCall(call_id, execution) if execution and start.name == NAME else None

    def item(self, event: object) -> Item | None:
        match event:
            case GatewayCallRan(start, FoundTools(names)):
                shown = found(self.feature.input.shown, frozenset(names))
                return SearchOutput(self.response.call_id(start), shown)
        return None


class SearchInResponses(ResponsesFeature):
    TYPES = re.compile(NAME)
    ITEMS: ClassVar = {CALL: "tsc", RESULT: "tso"}
    FIELDS: ClassVar = {
        CALL: ("call_id", "execution", "arguments"),
        RESULT: ("call_id", "execution", "tools"),
    }
    STATUS = (RESULT,)
    OUTPUT = ResponsesToolSearchOutput
    execution: Execution | None = None

    @property
    def finds_deferred(self) -> bool:
        return self.execution is not None

    def take(self, entry: Fields) -> ReadTool:
        function = search_tool(entry)
        is_clients = entry.values.get("execution") == "client"
        self.execution = "client" if is_clients else "server"
        if not is_clients:
            function = search_function(NAME, "bm25")
        repeated = {name: entry.values.get(name) for name in REPEATED}
        shown = EchoedTool({**repeated, "execution": self.execution}, NAME)
        return ReadTool([function_entry(entry.place, function)], shown)

    def chosen(self, choice: Fields) -> str:
        return NAME

    def runners(self) -> dict[str, GatewayTool]:
        if self.execution != "server":
            return {}
        return {NAME: ToolSearch("bm25", self.input.tools, self.input.client.owner)}

    def read_back(self, item: Fields, kind: str, turns: ItemTurns) -> bool:
        """Read a search or its output. A search that another service ran has no id: its output is
        the next one."""
        if kind == CALL:
            arguments = turns.history.arguments(item)
            turns.call(item.text("call_id") or "", NAME, arguments, item.place)
            return True
        call_id = item.text("call_id") or ""
        tools = turns.defined(item)
        turns.tools.begin()
        changes = ToolChanges(turns.tools)
        changes.define(tools)
        turns.result(call_id, changes.parts() or NOTHING_FOUND, item.place, name=NAME)
        return True


def search_tool(fields: Fields) -> dict[str, Any]:
    """Return a search of the client as a function. Raise InvalidRequest and
    UnsupportedParameter."""
    execution = fields.text("execution")
    if execution not in (None, *EXECUTIONS):
        raise unknown_value(fields.path("execution"), "client or server", execution, EXECUTIONS)
    fields.check_known(REPEATED)
    function: dict[str, Any] = {"name": NAME}
    if (description := fields.text("description")) is not None:
        function["description"] = description
    if (parameters := fields.mapping("parameters")) is not None:
        function["parameters"] = parameters
    return function


def found(shown: Iterable[EchoedTool], names: Container[str]) -> list[dict[str, Any]]:
    """Return those of the tools of a response that the model knows by `names`."""
    return chosen_of(shown, lambda tool: tool.body["type"] in FOUND and tool.name in names)


@dataclass
class SearchCall(CallItem):
    """The item of a search. Its arguments are an object, of which no event has a part. A call that
    is cut stays without its `done` event, and without arguments."""

    PREFIX = "tsc"
    call_id: str
    execution: Execution

    def body(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": CALL,
            "status": self.status,
            "execution": self.execution,
            "call_id": self.call_id,
            "arguments": self._object() if self.status == "completed" else {},
        }

    def _object(self) -> Any:
        return json.loads(self.arguments, parse_int=_integer, parse_float=_number)


@dataclass
class SearchOutput(Item):
    PREFIX = "tso"
    call_id: str
    tools: list[dict[str, Any]]
    """In the form of the request's tools."""

    def body(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": RESULT,
            "status": self.status,
            "execution": "server",
            "call_id": self.call_id,
            "tools": self.tools,
        }


def _integer(text: str) -> int | float:
    """JSON has integers of any length; those of a response have 64 bits."""
    if len(text) < 20 and (number := int(text)) in INT64:
        return number
    return _number(text)


def _number(text: str) -> float:
    """Return the nearest number that JSON can write."""
    return max(-sys.float_info.max, min(sys.float_info.max, float(text)))
