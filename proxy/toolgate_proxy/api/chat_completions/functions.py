"""`functions` and `function_call`: the deprecated forms of `tools` and `tool_choice`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from toolgate_core.chat_request import NamedTool, ToolChoice
from toolgate_core.errors import InvalidRequest, InvalidTools, UnsupportedParameter
from toolgate_core.tools import OnInvalid, Tool, refuse
from toolgate_core.toolset import Toolset

from ...request_fields import Fields, unknown_value
from ...shared_tools import DEFERRED, not_deferred
from ..shared.deferred_tools import known_entries, read_toolset
from ..shared.hosted_tools import HostedTools, at_own_places, on_invalid_at
from ..shared.tool_search import Method, search_function
from ..shared.tools import (
    MODES,
    function_name,
    function_of,
    other_form,
    read_functions,
    read_tool_choice,
    read_tools,
)
from .mcp import McpReader
from .search import NAME, flag_of, is_search

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


def read_definitions(
    values: Mapping[str, Any],
    hosted: HostedTools,
    mcp: McpReader,
    *,
    open_objects: bool,
    on_invalid: OnInvalid = refuse,
    search: Method | None = None,
) -> Toolset:
    """Return the tools of a request, with the search that the gateway runs. `on_invalid` gets the
    errors of names and schemas, but those of MCP servers are left out if they are invalid. Raise
    InvalidRequest, InvalidTools, whose `param` is the invalid entry, and UnsupportedParameter."""

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
    tools = values.get("tools", ())
    known = known_entries(
        tools,
        f"chat completions, {search}",
        _entry,
        name_of=_name,
        function_of=_function,
        is_search=lambda tool: search is not None and is_search(tool),
        search_name=NAME,
    )
    given = enumerate(tools) if known is None else not_deferred(tools)
    offered = [(f"tools[{at}]", each) for at, each in given if not (search and is_search(each))]
    entries = [*_entries(offered, hosted, mcp)]
    if search:
        function = search_function(NAME, search)
        entries.append(_Entry("tools", {"type": "function", "function": function}))
    return read_toolset(
        entries,
        partial(_parsed, open_objects=open_objects),
        name_of=_name,
        function_of=_function,
        is_deferred=lambda entry: entry.deferred,
        hosted=hosted,
        on_invalid=leave_out,
        known=known,
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


def _name(entry: _Entry) -> str | None:
    return function_name(entry.tool)


def _function(entry: _Entry) -> Mapping[str, Any]:
    function: Mapping[str, Any] = function_of(entry.tool)
    return function


def _entries(
    tools: Iterable[tuple[str, object]], hosted: HostedTools, mcp: McpReader
) -> Iterator[_Entry]:
    """`tools`: with their paths."""
    for path, entry in tools:
        if isinstance(entry, dict) and mcp.takes(entry, path):
            fields = Fields(entry, path)
            deferred = fields.flag(DEFERRED) is True
            for tool in mcp.read(fields):
                function = {"type": "function", "function": tool.function()}
                yield _Entry(path, function, deferred)
        elif not hosted.leaves_out(entry, path):
            yield _entry(entry, path)


def _entry(tool: object, path: str) -> _Entry:
    """A deferred tool is checked when it is added: a request can have thousands."""
    deferred = flag_of(tool)
    return _Entry(path, tool if deferred is True else _checked(tool, path), deferred is True)


def _checked(tool: object, path: str) -> object:
    """The tool without `defer_loading`, which is a member of the tool or of the function."""
    if not isinstance(tool, dict):
        return tool
    if (other := other_form(tool, "chat completions")) is not None:
        raise InvalidTools(f"{path!r} is no tool of chat completions. {other}", param=path)
    Fields(tool, path).flag(DEFERRED)
    kept = {name: value for name, value in tool.items() if name != DEFERRED}
    inner = tool.get("function")
    if isinstance(inner, dict) and DEFERRED in inner:
        Fields(inner, f"{path}.function").flag(DEFERRED)
        kept["function"] = {name: value for name, value in inner.items() if name != DEFERRED}
    return kept


def _parsed(
    entries: Sequence[_Entry], on_invalid: OnInvalid, *, open_objects: bool
) -> tuple[Tool, ...]:
    paths = [entry.path for entry in entries]
    tools = [_checked(each.tool, each.path) if each.deferred else each.tool for each in entries]
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
