"""`functions` and `function_call`: the deprecated forms of `tools` and `tool_choice`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgate_core.chat_request import NamedTool, ToolChoice
from toolgate_core.errors import InvalidRequest, InvalidTools, UnsupportedParameter
from toolgate_core.tools import Tool, parameters_path

from ...request_fields import unknown_value
from ..shared.hosted_tools import HostedTools, at_own_places
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


def requested_tools(
    values: Mapping[str, Any], hosted: HostedTools, *, open_objects: bool
) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    """The tools, and the paths of their schemas. Raises InvalidTools, whose `param` is the invalid
    entry, and UnsupportedParameter."""
    if "functions" in values:
        functions = values["functions"]
        read = read_functions(functions, param="functions", open_objects=open_objects)
        return read, tuple(f"functions[{at}].parameters" for at in range(len(read)))
    tools = hosted.others(values.get("tools", ()))
    for at, tool in tools:
        other = other_form(tool, "chat completions") if isinstance(tool, dict) else None
        if other is not None:
            path = f"tools[{at}]"
            raise InvalidTools(f"{path!r} is no tool of chat completions. {other}", param=path)
    places = [at for at, _ in tools]
    try:
        read = read_tools([tool for _, tool in tools], open_objects=open_objects)
    except InvalidRequest as error:
        raise at_own_places(error, places) from error
    paths = (f"tools[{at}].{parameters_path(tool)}" for at, tool in zip(places, read, strict=True))
    return read, tuple(paths)


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
