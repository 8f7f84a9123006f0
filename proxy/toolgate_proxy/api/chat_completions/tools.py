"""`tools` of chat completions, and `functions`, which is their deprecated form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from toolgate_core.chat_request import NamedTool, ToolChoice
from toolgate_core.errors import InvalidTools, UnsupportedParameter
from toolgate_core.tools import OnInvalid, Tool, refuse
from toolgate_core.toolset import Toolset

from ...features.feature import Used
from ...request_fields import Fields, invalid_value, unknown_value
from ..shared.tools import (
    DEFERRED,
    MODES,
    Entry,
    HostedTools,
    deferred_flag,
    function_entry,
    function_name,
    other_form,
    parse_entries,
    read_tool_choice,
    read_toolset,
)
from .feature import ChatFeature

CHOICES = ("none", "auto")
OFFERED = ("function", "custom")
FLAT = ((".function", ""),)


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
    used: Used[ChatFeature],
    *,
    open_objects: bool,
    on_invalid: OnInvalid = refuse,
) -> Toolset:
    """Return the tools of a request, with those of its features (`used`). `on_invalid` gets the
    errors of names and schemas. Raise InvalidRequest, InvalidTools, whose `param` is the invalid
    entry, and UnsupportedParameter."""
    if "functions" in values:
        functions = enumerate(values["functions"])
        entries = [function_entry(f"functions[{at}]", each) for at, each in functions]
        return Toolset(parse_entries(entries, on_invalid, open_objects=open_objects, words=FLAT))
    entries = [*_entries(values.get("tools", ()), hosted, used), *used.more()]
    return read_toolset(
        entries,
        partial(parse_entries, open_objects=open_objects),
        hosted=hosted,
        on_invalid=on_invalid,
        optional=used.optional,
    )


def define(
    definition: object, path: str, *, open_objects: bool, on_invalid: OnInvalid
) -> tuple[Tool, ...]:
    """Parse a definition in a message."""
    return parse_entries([_entry(definition, path)], on_invalid, open_objects=open_objects)


def _entries(tools: Sequence[Any], hosted: HostedTools, used: Used[ChatFeature]) -> Iterator[Entry]:
    for at, entry in enumerate(tools):
        path = f"tools[{at}]"
        kind = entry.get("type") if isinstance(entry, dict) else None
        feature = None if kind in OFFERED else used.of_type(kind)
        taken = None if feature is None else feature.take(Fields(entry, path))
        if taken is not None:
            yield from taken
        elif kind in OFFERED or not hosted.leaves_out(entry, path):
            yield _entry(entry, path)


def _entry(tool: object, path: str) -> Entry:
    """Return a tool without `defer_loading`, which is a member of the tool or of the function."""
    if not isinstance(tool, dict):
        return Entry(path, tool)
    if (other := other_form(tool, "chat completions")) is not None:
        raise InvalidTools(f"{path!r} is no tool of chat completions. {other}", param=path)
    inner = tool.get("function")
    if DEFERRED not in tool and not (isinstance(inner, dict) and DEFERRED in inner):
        return Entry(path, tool)
    Fields(tool, path).flag(DEFERRED)
    kept = {name: value for name, value in tool.items() if name != DEFERRED}
    if isinstance(inner, dict) and DEFERRED in inner:
        Fields(inner, f"{path}.function").flag(DEFERRED)
        kept["function"] = {name: value for name, value in inner.items() if name != DEFERRED}
    return Entry(path, kept, deferred_flag(tool) is True)


def choice_of(values: Mapping[str, Any]) -> ToolChoice:
    """Return the choice between the tools."""
    if "function_call" not in values:
        choice = values.get("tool_choice")
        choice = "required" if choice == "any" else choice  # "any" is Mistral's
        return read_tool_choice(choice, _chosen)
    choice = values["function_call"]
    if isinstance(choice, str) and choice in CHOICES:
        return MODES[choice]
    name = choice.get("name") if isinstance(choice, dict) else None
    if not isinstance(name, str):
        expected = '"none", "auto" or an object with a name'
        raise unknown_value("function_call", expected, choice, CHOICES)
    return NamedTool(name)


def _chosen(fields: Fields) -> str:
    """Return the name of a tool in `tool_choice`."""
    kind = fields.values.get("type")
    if kind not in (None, *OFFERED):
        raise UnsupportedParameter(
            f"A 'tool_choice' of the type {kind!r} is not supported. Use the type \"function\", "
            '"custom" or "allowed_tools".',
            param=fields.place,
        )
    name = function_name(fields.values)
    if name is None:
        expected = f"an object with the tool's name in {kind or 'function'}.name"
        raise invalid_value(fields.place, expected, fields.values)
    return name
