"""The built-in tools, by the types of their entries and items."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ....request_fields import Fields
from ...shared.history import History
from .apply_patch import APPLY_PATCH
from .local_shell import LOCAL_SHELL
from .shell import SHELL
from .tool import BuiltinTool

BUILTIN_TOOLS = (SHELL, LOCAL_SHELL, APPLY_PATCH)
BY_TYPE = {tool.type: tool for tool in BUILTIN_TOOLS}


def builtin_tool(entry: Mapping[str, Any]) -> BuiltinTool | None:
    """Return the tool of an entry of `tools`; None for others, and for those that OpenAI runs."""
    kind = entry.get("type")
    tool = BY_TYPE.get(kind) if isinstance(kind, str) else None
    return tool if tool is not None and tool.is_client_run(entry) else None


def function_of(tool: BuiltinTool, entry: Fields) -> dict[str, Any]:
    """Return the function that the model is offered."""
    return {
        "name": tool.type,
        "description": tool.describe(entry),
        "parameters": tool.parameters,
    }


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
