"""A call of the search for deferred tools, and what a search of the gateway has found."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from ..state.item_ids import item_id
from .items import Event, SilentCall, Status, item_added, item_done

Execution = Literal["client", "server"]
INT64 = range(-(2**63), 2**63)


@dataclass
class SearchCallItem(SilentCall):
    """Its arguments are an object, so that no event has a part of them. A call that is cut stays
    without its `done` event, and without arguments."""

    PREFIX = "tsc"
    call_id: str
    execution: Execution
    """Who runs the search."""

    def begin(self) -> Iterator[Event]:
        yield item_added(self.index, self.body())

    def end(self) -> Iterator[Event]:
        """The call is complete and valid."""
        self.status = "completed"
        yield item_done(self.index, self.body())

    def body(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": "tool_search_call",
            "status": self.status,
            "execution": self.execution,
            "call_id": self.call_id,
            "arguments": self._object() if self.status == "completed" else {},
        }

    def _object(self) -> Any:
        return json.loads(self.arguments, parse_int=_integer, parse_float=_number)


@dataclass
class SearchOutputItem:
    """It is sent as a whole."""

    response_id: str
    index: int
    call_id: str
    tools: list[dict[str, Any]]
    """In the form of the request's tools."""
    status: Status = "completed"

    def begin(self) -> Iterator[Event]:
        yield item_added(self.index, self.body())
        yield item_done(self.index, self.body())

    def body(self) -> dict[str, Any]:
        return {
            "id": item_id("tso", self.response_id, self.index),
            "type": "tool_search_output",
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
    """The nearest number that JSON can write."""
    return max(-sys.float_info.max, min(sys.float_info.max, float(text)))
