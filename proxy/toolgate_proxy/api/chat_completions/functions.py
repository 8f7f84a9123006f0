"""`functions` and `function_call`: the deprecated forms of `tools` and `tool_choice`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgate_core.chat_request import NamedTool, ToolChoice
from toolgate_core.errors import InvalidTools, UnsupportedParameter
from toolgate_core.tools import Tool

from ...request_fields import unknown_value
from ..shared.tool_forms import other_form
from ..shared.tools import read_functions, read_tool_choice, read_tools

CHOICES = ("none", "auto")


def is_legacy(values: Mapping[str, Any]) -> bool:
    """Whether a request uses `functions`. Raises UnsupportedParameter if it mixes both forms."""
    for old, new in (("functions", "tools"), ("function_call", "tool_choice")):
        if old not in values:
            continue
        for other in ("tools", "tool_choice"):
            if other in values:
                raise UnsupportedParameter(
                    f"{old!r} can't be combined with {other!r}. Use {new!r} instead of {old!r}.",
                    param=old,
                )
    return "functions" in values or "function_call" in values


def requested_tools(values: Mapping[str, Any], *, open_objects: bool) -> tuple[Tool, ...]:
    """Raises InvalidTools, whose `param` is the invalid entry."""
    if "functions" in values:
        return read_functions(values["functions"], param="functions", open_objects=open_objects)
    for at, tool in enumerate(tools := values.get("tools", ())):
        other = other_form(tool, "chat completions") if isinstance(tool, dict) else None
        if other is not None:
            path = f"tools[{at}]"
            raise InvalidTools(f"{path!r} is no tool of chat completions. {other}", param=path)
    return read_tools(tools, open_objects=open_objects)


def requested_tool_choice(values: Mapping[str, Any]) -> ToolChoice:
    if "function_call" not in values:
        return read_tool_choice(values.get("tool_choice"))
    choice = values["function_call"]
    if choice in CHOICES:
        return choice  # type: ignore[no-any-return]
    name = choice.get("name") if isinstance(choice, dict) else None
    if not isinstance(name, str):
        expected = '"none", "auto" or an object with a name'
        raise unknown_value("function_call", expected, choice, CHOICES)
    return NamedTool(name)
