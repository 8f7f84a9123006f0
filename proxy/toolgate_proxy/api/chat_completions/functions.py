"""`functions` and `function_call`: the deprecated forms of `tools` and `tool_choice`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgate_core.chat_request import NamedTool, ToolChoice
from toolgate_core.errors import InvalidTools, UnsupportedParameter
from toolgate_core.tools import OnInvalid, Tool, refuse

from ...request_fields import unknown_value
from ..shared.hosted_tools import HostedTools, at_own_places, on_invalid_at
from ..shared.tools import MODES, other_form, read_functions, read_tool_choice, read_tools

CHOICES = ("none", "auto")


def is_legacy(values: Mapping[str, Any]) -> bool:
    """Return whether a request uses `functions`. Raise UnsupportedParameter if it mixes both
    forms."""
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
    values: Mapping[str, Any],
    hosted: HostedTools,
    *,
    open_objects: bool,
    on_invalid: OnInvalid,
) -> tuple[tuple[Tool, ...], ToolChoice]:
    """Return the tools that are offered and the choice between them. `on_invalid` gets the errors
    of names and schemas. Raise InvalidTools, whose `param` is the invalid entry, and
    UnsupportedParameter."""
    tools = offered_tools(values, hosted, open_objects=open_objects, on_invalid=on_invalid)
    choice = _tool_choice(values)
    hosted.check_choice(choice, tools)
    return tools, choice


def offered_tools(
    values: Mapping[str, Any],
    hosted: HostedTools,
    *,
    open_objects: bool,
    on_invalid: OnInvalid = refuse,
) -> tuple[Tool, ...]:
    """Return the tools, whatever the choice between them is. Raise InvalidTools and
    UnsupportedParameter."""
    if "functions" in values:
        return read_functions(
            values["functions"],
            param="functions",
            open_objects=open_objects,
            on_invalid=on_invalid,
        )
    tools = hosted.others(values.get("tools", ()))
    for at, tool in tools:
        other = other_form(tool, "chat completions") if isinstance(tool, dict) else None
        if other is not None:
            path = f"tools[{at}]"
            raise InvalidTools(f"{path!r} is no tool of chat completions. {other}", param=path)
    others, places = [tool for _, tool in tools], [at for at, _ in tools]
    own = on_invalid_at(places, on_invalid)
    read = read_tools(others, open_objects=open_objects, on_invalid=own)
    return at_own_places(read, places)


def _tool_choice(values: Mapping[str, Any]) -> ToolChoice:
    if "function_call" not in values:
        choice = values.get("tool_choice")
        return "required" if choice == "any" else read_tool_choice(choice)  # "any" is Mistral's
    choice = values["function_call"]
    if isinstance(choice, str) and choice in CHOICES:
        return MODES[choice]
    name = choice.get("name") if isinstance(choice, dict) else None
    if not isinstance(name, str):
        expected = '"none", "auto" or an object with a name'
        raise unknown_value("function_call", expected, choice, CHOICES)
    return NamedTool(name)
