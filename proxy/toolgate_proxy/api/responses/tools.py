"""`tools` of the Responses API: functions, custom tools, namespaces of both, built-in tools that
clients run, searches, and hosted tools, which no model is offered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from toolgate_core.errors import InvalidRequest, InvalidTools, UnsupportedParameter
from toolgate_core.pointer import member_path
from toolgate_core.tools import OnInvalid, Tool, refuse
from toolgate_core.toolset import Toolset

from ...request_fields import Fields
from ...sealing import OwnerSeal
from ..shared.deferred_tools import read_toolset
from ..shared.domains import Domains
from ..shared.hosted_tools import HostedTools
from ..shared.mcp import Listing
from ..shared.mcp_entry import CREDENTIALS, MCP, McpEntry, read_entry
from ..shared.tool_search import search_function
from ..shared.tools import other_form
from ..shared.tools import read_tools as read_nested_tools
from ..shared.web_search import FUNCTION, SearchEngine, WebSearch
from .builtin_tools.table import builtin_tool, function_of
from .search_entries import (
    SEARCH_FIELDS,
    WEB_SEARCH_FIELDS,
    WEB_SEARCHES,
    allowed_domains,
    search_tool,
)
from .shown_tools import DEFAULT_NAMESPACE, FIELDS, SEARCH, full_name, shown_tool

IGNORED_FIELDS = ("defer_loading", "output_schema", "allowed_callers")
"""Fields without effect. Without a search of the client, deferred tools are loaded at once."""


@dataclass(frozen=True)
class _Entry:
    nested: dict[str, Any]
    """A function or custom tool in the form of chat completions."""
    path: str
    namespace: str
    """An empty text if it has none."""
    deferred: bool

    @property
    def name(self) -> str | None:
        name = self.nested[self.nested["type"]].get("name")
        return name if isinstance(name, str) else None


@dataclass
class ToolReader:
    """Parses the tools of one request. `on_invalid` gets the errors of names and schemas."""

    hosted: HostedTools
    open_objects: bool = False
    on_invalid: OnInvalid = refuse
    shown: tuple[dict[str, Any], ...] = ()
    """The tools of the request as the response repeats them."""
    engine: SearchEngine | None = None
    """Searches the web. None: web searches are hosted tools that the gateway does not have."""
    seal: OwnerSeal | None = None
    """Of the sender."""
    web_search: WebSearch | None = None
    """The web search that the request offers."""
    listings: Mapping[str, Listing] = field(default_factory=dict)
    """What MCP servers offer, by the paths of their entries."""
    mcp: list[McpEntry] = field(default_factory=list)
    """The MCP servers that the request offers."""
    builtins: set[str] = field(default_factory=set)
    """The types of the built-in tools, which are their names."""
    search: Literal["client", "server"] | None = None
    """Who runs the search for deferred tools that the request offers."""
    _alone: frozenset[str | None] = frozenset()
    """Names of the deferred functions of the request without a namespace."""

    def toolset(self, tools: Sequence[object]) -> Toolset:
        """Raise InvalidRequest, InvalidTools and UnsupportedParameter, which name the entry."""
        entries: list[_Entry] = []
        shown = [self._read(entry, f"tools[{at}]", entries) for at, entry in enumerate(tools)]
        self.shown = tuple(tool for tool in shown if tool is not None)
        self._alone = frozenset(
            entry.name
            for entry in entries
            if entry.deferred and not entry.namespace and entry.nested["type"] == "function"
        )
        return read_toolset(
            entries,
            self._parsed,
            name_of=lambda entry: entry.name,
            function_of=lambda entry: entry.nested[entry.nested["type"]],
            is_deferred=lambda entry: entry.deferred and self.search is not None,
            hosted=self.hosted,
            on_invalid=self._leave_out,
        )

    def _leave_out(self, name: str, error: InvalidRequest) -> None:
        """Leave out an invalid tool of an MCP server. The settings decide about others."""
        if name not in self.mcp_names:
            self.on_invalid(name, error)

    @property
    def mcp_names(self) -> frozenset[str]:
        return frozenset(tool.name for entry in self.mcp for tool in entry.allowed)

    def define(self, tools: Sequence[object], path: str) -> tuple[Tool, ...]:
        """Parse the tools of an item. `path`: of the array."""
        entries: list[_Entry] = []
        for at, entry in enumerate(tools):
            self._read(entry, f"{path}[{at}]", entries)
        return self._parsed(entries, self.on_invalid)

    def _read(
        self, entry: object, path: str, entries: list[_Entry], namespace: str = ""
    ) -> dict[str, Any] | None:
        """The tool as the response repeats it; None if it is left out. Its functions and custom
        tools are added to `entries`."""
        if not isinstance(entry, dict):
            raise InvalidTools(f"{path!r} must be an object.", param=path)
        kind = entry.get("type")
        if (other := other_form(entry, "the Responses API")) is not None:
            raise InvalidTools(f"{path!r} is no tool of the Responses API. {other}", param=path)
        if kind in ("function", "custom"):
            entries.append(_entry(kind, entry, path, namespace))
            return shown_tool(kind, entry)
        if kind == "namespace" and not namespace:
            return self._read_namespace(entry, path, entries)
        if kind == SEARCH and not namespace:
            return self._read_search(entry, path, entries)
        if self.engine is not None and kind in WEB_SEARCHES and not namespace:
            domains = Domains(allowed_domains(Fields(entry, path)))
            self.web_search = WebSearch(self.engine, self.seal, domains)
            entries.append(_Entry({"type": "function", "function": FUNCTION}, path, "", False))
            return {name: entry.get(name) for name in WEB_SEARCH_FIELDS}
        if (builtin := builtin_tool(entry)) is not None and not namespace:
            _check_fields(builtin.type, entry, path)
            self.builtins.add(builtin.type)
            nested = function_of(builtin, Fields(entry, path))
            entries.append(_Entry(nested, path, "", deferred=False))
            return shown_tool(builtin.type, entry)
        if kind == MCP and path in self.listings and not namespace:
            return self._read_mcp(Fields(entry, path), entries)
        if self.hosted.leaves_out(entry, path):
            return None
        raise _unknown_type(kind, path)

    def _read_mcp(self, fields: Fields, entries: list[_Entry]) -> dict[str, Any]:
        made = read_entry(fields, self.listings[fields.place])
        self.mcp.append(made)
        deferred = fields.flag("defer_loading") is True
        for tool in made.allowed:
            nested = {"type": "function", "function": tool.function()}
            entries.append(_Entry(nested, fields.place, "", deferred))
        return {
            name: value
            for name, value in fields.values.items()
            if value is not None and name not in CREDENTIALS
        }

    def _read_search(
        self, entry: dict[str, Any], path: str, entries: list[_Entry]
    ) -> dict[str, Any]:
        fields = Fields(entry, path)
        search = _Entry(search_tool(fields), path, "", deferred=False)
        self.search = "client" if entry.get("execution") == "client" else "server"
        if self.search == "server":
            function = search_function(SEARCH, "bm25")
            search = replace(search, nested={"type": "function", "function": function})
        entries.append(search)
        return {**{name: entry.get(name) for name in SEARCH_FIELDS}, "execution": self.search}

    def _read_namespace(
        self, entry: dict[str, Any], path: str, entries: list[_Entry]
    ) -> dict[str, Any]:
        _check_fields("namespace", entry, path)
        fields = Fields(entry, path)
        name, description = fields.text("name"), fields.text("description")
        if not name:
            raise InvalidTools(f"{path}.name must be a non-empty string.", param=f"{path}.name")
        inner = fields.items("tools")
        if not inner:
            raise InvalidTools(
                f"{path}.tools must be a non-empty array of functions and custom tools.",
                param=f"{path}.tools",
            )
        tools = [
            self._read(each, f"{path}.tools[{at}]", entries, name) for at, each in enumerate(inner)
        ]
        shown = [tool for tool in tools if tool is not None]
        # OpenAI's model of a response requires the description.
        described = description or ""
        return {"type": "namespace", "name": name, "description": described, "tools": shown}

    def _parsed(self, entries: Sequence[_Entry], on_invalid: OnInvalid) -> tuple[Tool, ...]:
        own_places = {f"tools[{at}]": entry.path for at, entry in enumerate(entries)}

        def on_invalid_tool(name: str, error: InvalidRequest) -> None:
            on_invalid(own_places.get(name, name), _in_own_words(error, entries))

        tools = read_nested_tools(
            [entry.nested for entry in entries],
            open_objects=self.open_objects,
            on_invalid=on_invalid_tool,
        )
        return tuple(self._at_own_place(tool, entries) for tool in tools)

    def _at_own_place(self, tool: Tool, entries: Sequence[_Entry]) -> Tool:
        """The tool with its namespace and the path in the request. The Agents SDK knows the calls
        of a deferred function without a namespace by a namespace that is its name."""
        entry = entries[int(tool.param.removeprefix("tools[").partition("]")[0])]
        path = f"{entry.path}.{'format.definition' if tool.custom else 'parameters'}"
        is_alone = not entry.namespace and tool.name in self._alone
        return replace(tool, namespace=tool.name if is_alone else entry.namespace, param=path)


def _entry(kind: str, entry: dict[str, Any], path: str, namespace: str) -> _Entry:
    _check_fields(kind, entry, path)
    fields = Fields(entry, path)
    fields.text("description")
    # In the order of the request, as templates show it.
    kept = {
        name: value
        for name, value in entry.items()
        if name in FIELDS[kind] and name != "type" and value is not None
    }
    if namespace and isinstance(kept.get("name"), str):
        kept["name"] = full_name(namespace, kept["name"])
    if isinstance(form := kept.get("format"), dict) and form.get("type") == "grammar":
        inner = {key: value for key, value in form.items() if key != "type"}
        kept["format"] = {"type": "grammar", "grammar": inner}
    deferred = fields.flag("defer_loading") is True
    own = "" if namespace == DEFAULT_NAMESPACE else namespace
    return _Entry({"type": kind, kind: kept}, path, own, deferred)


def _in_own_words(error: InvalidRequest, entries: Sequence[_Entry]) -> InvalidRequest:
    """The error with the path of the request. The path of `error` counts functions and custom tools
    only, and has the members of chat completions."""
    param = error.param or ""
    for at, path in enumerate(entry.path for entry in entries):
        place = f"tools[{at}]"
        if param != place and not param.startswith(f"{place}."):
            continue
        own, message = param.replace(place, path, 1), error.message.replace(place, path)
        for inner in (".function", ".custom"):
            own = own.replace(f"{path}{inner}", path, 1)
            message = message.replace(f"{path}{inner}", path)
        grammar = f"{path}.format.grammar"
        own = own.replace(grammar, f"{path}.format", 1)
        message = message.replace(grammar, f"{path}.format")
        return error.reworded(message, own)
    return error


def _unknown_type(kind: object, path: str) -> InvalidTools | UnsupportedParameter:
    path = f"{path}.type"
    if not isinstance(kind, str):
        return InvalidTools(f'{path!r} must be a string, for example "function".', param=path)
    return UnsupportedParameter(
        f'{path!r} is {kind!r}, which is not supported. Use the type "function", "custom" or '
        '"namespace".',
        param=path,
    )


def _check_fields(kind: str, entry: Mapping[str, Any], path: str) -> None:
    known = FIELDS[kind]
    for name, value in entry.items():
        if name not in (*known, *IGNORED_FIELDS) and value not in (None, False):
            place = member_path(path, name)
            raise UnsupportedParameter(
                f"{place!r} is not supported. A tool of the type {kind!r} has the members "
                f"{', '.join(known)}.",
                param=place,
            )
    callers = entry.get("allowed_callers")
    if callers is not None and (not isinstance(callers, list) or "direct" not in callers):
        raise UnsupportedParameter(
            f"{f'{path}.allowed_callers'!r} must contain 'direct'. Programs of the model can't "
            "call tools here.",
            param=f"{path}.allowed_callers",
        )
