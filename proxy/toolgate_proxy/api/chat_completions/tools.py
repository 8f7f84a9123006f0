"""`tools` of chat completions, `functions`, which is their deprecated form, and the search for
deferred tools.

Chat completions have no form for a call that the gateway runs, so the client sees nothing of a
search but its tokens in the usage. The history has only the client's own calls. A search is written
before the first call of each tool that was deferred, always in the same way, so the same history
always has the same prompt.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from toolgate_core.chat_request import AllowedTools, NamedTool, ToolChoice
from toolgate_core.errors import InvalidTools, UnsupportedParameter
from toolgate_core.tools import OnInvalid, Tool, refuse
from toolgate_core.toolset import Toolset

from ...features.feature import Used
from ...request_fields import Fields, invalid_value, unknown_value
from ..shared.tool_changes import ToolChanges
from ..shared.tool_search import QUERY, Method, method_of, search_function
from ..shared.tools import (
    DEFERRED,
    MODES,
    Entry,
    HostedTools,
    function_entry,
    function_name,
    other_form,
    parse_entries,
    read_tool_choice,
    read_toolset,
)
from .feature import ChatFeature

CHOICES = ("none", "auto")
NAME = "tool_search"
"""The search's name for the model, and its type in OpenAI's form."""
OFFERED = ("function", "custom")
FLAT = ((".function", ""),)

Message = dict[str, Any]


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
    search: Method | None = None,
) -> Toolset:
    """Return the tools of a request, with those of its features (`used`). `on_invalid` gets the
    errors of names and schemas. Raise InvalidRequest, InvalidTools, whose `param` is the invalid
    entry, and UnsupportedParameter."""
    if "functions" in values:
        functions = enumerate(values["functions"])
        entries = [function_entry(f"functions[{at}]", each) for at, each in functions]
        return Toolset(parse_entries(entries, on_invalid, open_objects=open_objects, words=FLAT))
    entries = [*_entries(values.get("tools", ()), hosted, used, search), *used.more()]
    if search:
        entries.append(function_entry("tools", search_function(NAME, search)))
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


def _entries(
    tools: Sequence[object], hosted: HostedTools, used: Used[ChatFeature], search: Method | None
) -> Iterator[Entry]:
    for at, entry in enumerate(tools):
        path, taken = f"tools[{at}]", None
        if isinstance(entry, dict) and (feature := used.of_type(entry.get("type"))) is not None:
            taken = feature.take(Fields(entry, path))
        if taken is not None:
            yield from taken
        elif not (search and _method(entry)) and not hosted.leaves_out(entry, path):
            yield _entry(entry, path)


def _entry(tool: object, path: str) -> Entry:
    """Return a tool without `defer_loading`, which is a member of the tool or of the function."""
    if not isinstance(tool, dict):
        return Entry(path, tool)
    if (other := other_form(tool, "chat completions")) is not None:
        raise InvalidTools(f"{path!r} is no tool of chat completions. {other}", param=path)
    Fields(tool, path).flag(DEFERRED)
    kept = {name: value for name, value in tool.items() if name != DEFERRED}
    inner = tool.get("function")
    if isinstance(inner, dict) and DEFERRED in inner:
        Fields(inner, f"{path}.function").flag(DEFERRED)
        kept["function"] = {name: value for name, value in inner.items() if name != DEFERRED}
    return Entry(path, kept, flag_of(tool) is True)


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


def with_search(body: Mapping[str, Any], listed: int) -> Mapping[str, Any]:
    """Return the body with all tools after the first `listed` ones deferred, and with a search.
    Tools that say whether they are deferred stay as they are. So does a body without deferred
    tools, with a search of its own, or whose response can't have a search."""
    tools = body.get("tools")
    if not isinstance(tools, list) or not _is_possible(body):
        return body
    if any(_method(tool) or function_name(tool) == NAME for tool in tools):
        return body
    marked: list[object] = []
    undecided = 0
    for tool in tools:
        if isinstance(tool, dict) and tool.get("type") in OFFERED and flag_of(tool) is None:
            undecided += 1
            marked.append(tool if undecided <= listed else {**tool, DEFERRED: True})
        else:
            marked.append(tool)
    if not any(map(flag_of, marked)):
        return body
    return {**body, "tools": [*marked, {"type": NAME}]}


def requested_search(values: Mapping[str, Any]) -> Method | None:
    """Return how the search of a request searches; None if it has none that can find a tool."""
    tools = values.get("tools")
    if not tools or not _is_possible(values) or not any(map(flag_of, tools)):
        return None
    return next((method for tool in tools if (method := _method(tool))), None)


def flag_of(tool: object) -> object:
    """Return `defer_loading` of a tool or its function; None if neither has it."""
    if not isinstance(tool, dict):
        return None
    function = tool.get("function")
    own = tool.get(DEFERRED)
    return function.get(DEFERRED) if own is None and isinstance(function, dict) else own


@dataclass
class Searches:
    """Writes the searches that a history does not have."""

    tools: Toolset
    choice: ToolChoice
    _calls: int = 0
    """The number of calls so far."""

    def before(self, message: Message) -> list[Message]:
        """Return the search that found the tools that a message calls, with its result."""
        calls = message.get("tool_calls") or ()
        written = self._written(call["function"]["name"] for call in calls)
        self._calls += len(calls)
        return written

    def at_end(self) -> list[Message]:
        """Return a search that finds the tools that `tool_choice` names."""
        choice = self.choice
        if isinstance(choice, AllowedTools):
            return self._written(choice.names)
        return self._written([choice.name] if isinstance(choice, NamedTool) else ())

    def _written(self, names: Iterable[str]) -> list[Message]:
        changes = ToolChanges(self.tools)
        found = [name for name in dict.fromkeys(names) if self.tools.is_deferred(name)]
        for name in found:
            changes.refer(name)
        content = changes.parts()
        if not content:
            return []
        # The form that the templates of Kimi need. Others leave ids out, or take any.
        call_id = f"functions.{NAME}:{self._calls}"
        self._calls += 1
        function = {"name": NAME, "arguments": json.dumps({QUERY: " ".join(found)})}
        call = {"id": call_id, "type": "function", "function": function}
        return [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call_id, "content": content},
        ]


def _method(tool: object) -> Method | None:
    """Return how a search that the gateway runs searches, in OpenAI's or Anthropic's form."""
    kind = tool.get("type") if isinstance(tool, dict) else None
    if not isinstance(tool, dict) or kind in OFFERED:
        return None
    if kind == NAME and tool.get("execution") in (None, "server"):
        return "bm25"
    return method_of(kind)


def _is_possible(body: Mapping[str, Any]) -> bool:
    """Return whether the response can be generated in several rounds of which the client sees only
    the last call."""
    options = body.get("stream_options")
    return not (
        body.get("n") not in (None, 1)
        or body.get("continue_final_message")
        or body.get("return_token_ids")
        or (isinstance(options, dict) and options.get("toolgate_trace"))
    )
