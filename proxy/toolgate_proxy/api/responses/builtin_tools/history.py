"""Earlier calls of built-in tools and their results, in the form of chat templates."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ....request_fields import Fields
from ...shared.history import History
from .table import BUILTIN_TOOLS

CALLS = {tool.call: tool for tool in BUILTIN_TOOLS}
OUTPUTS = {tool.output: tool for tool in BUILTIN_TOOLS}
IDS = ("call_id", "id")
"""Members that may have the id of the call. That of `local_shell` was `id`."""
COMMON = ("type", "status", *IDS, "caller", "created_by")
CALL_FIELDS = (*COMMON, "environment")
OUTPUT_FIELDS = (*COMMON, "output", "max_output_length")


class Result(NamedTuple):
    call_id: str
    text: str


def earlier_call(kind: str, item: Fields, history: History) -> dict[str, Any] | None:
    """Return the call in an item; None for items of other types, and for damaged ones."""
    tool, call_id = CALLS.get(kind), _call_id(item)
    member = item.values.get(tool.member) if tool is not None else None
    if tool is None or call_id is None or not isinstance(member, dict):
        return None
    history.note_unknown(item, (*CALL_FIELDS, tool.member))
    arguments = json.dumps(tool.to_arguments(member), ensure_ascii=False)
    function = {"name": tool.type, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def earlier_result(kind: str, item: Fields, history: History) -> Result | None:
    """Return the result in an item; None for items of other types, and for damaged ones."""
    tool, call_id = OUTPUTS.get(kind), _call_id(item)
    if tool is None or call_id is None:
        return None
    history.note_unknown(item, OUTPUT_FIELDS)
    return Result(call_id, tool.to_text(item.values))


def _call_id(item: Fields) -> str | None:
    ids = (item.values.get(name) for name in IDS)
    return next((each for each in ids if isinstance(each, str) and each), None)
