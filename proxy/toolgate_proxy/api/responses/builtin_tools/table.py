"""The built-in tools, by the types of their entries and items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....request_fields import Fields
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
    """Return the function that the model is offered, in the form of chat completions."""
    function = {
        "name": tool.type,
        "description": tool.describe(entry),
        "parameters": tool.parameters,
    }
    return {"type": "function", "function": function}
