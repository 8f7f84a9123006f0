"""`functions` and `function_call`: the deprecated forms of `tools` and `tool_choice`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from toolgate_core.chat_request import NamedTool, ToolChoice
from toolgate_core.errors import InvalidTools, UnsupportedParameter
from toolgate_core.tools import OnInvalid, Tool, refuse
from toolgate_core.toolset import Toolset

from ...request_fields import Fields, unknown_value
from ...shared_tools import DEFERRED, not_deferred
from ..shared.hosted_tools import HostedTools
from ..shared.tool_entries import (
    Entry,
    function_entry,
    known_entries,
    parse_entries,
    read_toolset,
)
from ..shared.tool_search import Method, search_function
from ..shared.tools import (
    MODES,
    other_form,
    read_functions,
    read_tool_choice,
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
    if "functions" in values:
        return Toolset(
            read_functions(
                values["functions"],
                param="functions",
                open_objects=open_objects,
                on_invalid=on_invalid,
            )
        )
    tools = values.get("tools")
    if not tools:
        return Toolset()
    known = known_entries(
        tools,
        f"chat completions, {search}",
        _entry,
        is_search=lambda tool: search is not None and is_search(tool),
        search_name=NAME,
    )
    given = enumerate(tools) if known is None else not_deferred(tools)
    offered = [(f"tools[{at}]", each) for at, each in given if not (search and is_search(each))]
    entries = [*_entries(offered, hosted, mcp)]
    if search:
        entries.append(function_entry("tools", search_function(NAME, search)))
    return read_toolset(
        entries,
        partial(_parsed, open_objects=open_objects),
        hosted=hosted,
        on_invalid=on_invalid,
        optional=mcp.names,
        known=known,
    )


def define(
    definition: object, path: str, *, open_objects: bool, on_invalid: OnInvalid
) -> tuple[Tool, ...]:
    """Parse a definition in a message."""
    return _parsed([_entry(definition, path)], on_invalid, open_objects=open_objects)


def _entries(
    tools: Iterable[tuple[str, object]], hosted: HostedTools, mcp: McpReader
) -> Iterator[Entry]:
    """`tools`: with their paths."""
    for path, entry in tools:
        if isinstance(entry, dict) and mcp.takes(entry, path):
            fields = Fields(entry, path)
            deferred = fields.flag(DEFERRED) is True
            for tool in mcp.read(fields):
                yield function_entry(path, tool.function(), deferred=deferred)
        elif not hosted.leaves_out(entry, path):
            yield _entry(entry, path)


def _entry(tool: object, path: str) -> Entry:
    """A deferred tool is checked when it is added: a request can have thousands."""
    deferred = flag_of(tool)
    return Entry(path, tool if deferred is True else _checked(tool, path), deferred is True)


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
    entries: Sequence[Entry], on_invalid: OnInvalid, *, open_objects: bool
) -> tuple[Tool, ...]:
    checked = [
        replace(each, tool=_checked(each.tool, each.path)) if each.deferred else each
        for each in entries
    ]
    return parse_entries(checked, on_invalid, open_objects=open_objects)


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
