"""`functions` and `function_call`: the deprecated forms of `tools` and `tool_choice`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from toolgate_core.chat_request import NamedTool, ToolChoice
from toolgate_core.errors import InvalidRequest, InvalidTools, UnsupportedParameter
from toolgate_core.tools import OnInvalid, Tool, refuse
from toolgate_core.toolset import Toolset

from ...request_fields import Fields, unknown_value
from ..shared.deferred_tools import read_toolset
from ..shared.hosted_tools import HostedTools, at_own_places, on_invalid_at
from ..shared.tools import (
    MODES,
    function_name,
    other_form,
    read_functions,
    read_tool_choice,
    read_tools,
)
from .mcp import McpReader

CHOICES = ("none", "auto")
DEFERRED = "defer_loading"


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


def read_definitions(
    values: Mapping[str, Any],
    hosted: HostedTools,
    mcp: McpReader,
    *,
    open_objects: bool,
    on_invalid: OnInvalid = refuse,
) -> Toolset:
    """Return the tools of a request. `on_invalid` gets the errors of names and schemas, but those
    of MCP servers are left out if they are invalid. Raise InvalidRequest, InvalidTools, whose
    `param` is the invalid entry, and UnsupportedParameter."""

    def leave_out(name: str, error: InvalidRequest) -> None:
        if name not in mcp.names:
            on_invalid(name, error)

    if "functions" in values:
        return Toolset(
            read_functions(
                values["functions"],
                param="functions",
                open_objects=open_objects,
                on_invalid=on_invalid,
            )
        )
    return read_toolset(
        [*_entries(values.get("tools", ()), hosted, mcp)],
        partial(_parsed, open_objects=open_objects),
        name_of=lambda entry: function_name(entry.tool),
        function_of=lambda entry: Fields(entry.tool).mapping("function") or {},
        is_deferred=lambda entry: entry.deferred,
        hosted=hosted,
        on_invalid=leave_out,
    )


def define(
    definition: object, path: str, *, open_objects: bool, on_invalid: OnInvalid
) -> tuple[Tool, ...]:
    """Parse a definition in a message."""
    return _parsed([_entry(definition, path)], on_invalid, open_objects=open_objects)


@dataclass(frozen=True)
class _Entry:
    path: str
    tool: Any
    deferred: bool = False


def _entries(tools: Sequence[object], hosted: HostedTools, mcp: McpReader) -> Iterator[_Entry]:
    for at, entry in enumerate(tools):
        path = f"tools[{at}]"
        if isinstance(entry, dict) and mcp.takes(entry, path):
            fields = Fields(entry, path)
            deferred = fields.flag(DEFERRED) is True
            for tool in mcp.read(fields):
                function = {"type": "function", "function": tool.function()}
                yield _Entry(path, function, deferred)
        elif not hosted.leaves_out(entry, path):
            yield _entry(entry, path)


def _entry(tool: object, path: str) -> _Entry:
    """`defer_loading` is a member of the tool or of the function. Templates do not show it."""
    if not isinstance(tool, dict):
        return _Entry(path, tool)
    if (other := other_form(tool, "chat completions")) is not None:
        raise InvalidTools(f"{path!r} is no tool of chat completions. {other}", param=path)
    deferred = Fields(tool, path).flag(DEFERRED)
    kept = {name: value for name, value in tool.items() if name != DEFERRED}
    inner = tool.get("function")
    if isinstance(inner, dict) and DEFERRED in inner:
        own = Fields(inner, f"{path}.function").flag(DEFERRED)
        deferred = own if deferred is None else deferred
        rest = {name: value for name, value in inner.items() if name != DEFERRED}
        kept["function"] = rest
    return _Entry(path, kept, deferred is True)


def _parsed(
    entries: Sequence[_Entry], on_invalid: OnInvalid, *, open_objects: bool
) -> tuple[Tool, ...]:
    paths = [entry.path for entry in entries]
    tools = [entry.tool for entry in entries]
    own = on_invalid_at(paths, on_invalid)
    return at_own_places(read_tools(tools, open_objects=open_objects, on_invalid=own), paths)


def choice_of(values: Mapping[str, Any]) -> ToolChoice:
    """Return the choice between the tools."""
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
