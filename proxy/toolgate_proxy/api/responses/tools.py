"""`tools` of the Responses API: functions, custom tools, namespaces of both, built-in tools that
clients run, searches, and hosted tools, which no model is offered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

from toolgate_core.errors import InvalidRequest, InvalidTools
from toolgate_core.tools import OnInvalid, Tool, refuse
from toolgate_core.toolset import Toolset

from ...request_fields import Fields
from ...shared_tools import DEFERRED, SharedTools
from ..shared.hosted_tools import HostedTools, is_hosted
from ..shared.mcp import CREDENTIALS, MCP, McpEntry, read_entry
from ..shared.tool_entries import (
    Entry,
    function_entry,
    known_by_name,
    parse_entries,
    read_toolset,
)
from ..shared.tool_search import search_function
from ..shared.tools import other_form
from ..shared.web_search import FUNCTION, Domains, WebSearch, read_domains
from ..shared.web_search import NAME as WEB_SEARCH
from ..surface import ANY_CLIENT, Client
from .builtin_tools.table import builtin_tool, function_of
from .known_array import KnownArray, Searcher, with_runs
from .shown_tools import SEARCH, Shown, shown_tool
from .tool_entry import (
    SEARCH_FIELDS,
    check_fields,
    client_entry,
    in_own_words,
    search_tool,
    unknown_type,
)

WEB_SEARCHES = (
    "web_search",
    "web_search_2025_08_26",
    "web_search_preview",
    "web_search_preview_2025_03_11",
)
"""Types of web searches, which the gateway runs if the operator has configured a search engine."""
WEB_SEARCH_FIELDS = ("type", "filters", "search_context_size", "user_location")


@dataclass
class ToolReader:
    """Parses the tools of one request. `client`: the sender. Searches in the web are hosted
    tools if it has no engine for them. `on_invalid` gets the errors of names and schemas."""

    hosted: HostedTools
    open_objects: bool = False
    client: Client = ANY_CLIENT
    on_invalid: OnInvalid = refuse
    shown: tuple[Shown, ...] = ()
    """The tools of the request as the response repeats them."""
    web_search: WebSearch | None = None
    """The web search that the request offers."""
    mcp: list[McpEntry] = field(default_factory=list)
    """The MCP servers that the request offers."""
    builtins: set[str] = field(default_factory=set)
    """The types of the built-in tools, which are their names."""
    search: Searcher | None = None
    """Who runs the search for deferred tools that the request offers."""
    _alone: frozenset[str | None] = frozenset()
    """Names of the deferred functions of the request without a namespace."""

    def toolset(self, tools: Sequence[object]) -> Toolset:
        """Raise InvalidRequest, InvalidTools and UnsupportedParameter, which name the entry."""
        known: KnownArray | None = None
        if isinstance(tools, SharedTools) and not self.client.mcp:
            # Which tools an MCP server has is not in the array.
            known = tools.kept("Responses", _read_apart)
        entries = self._all(tools) if known is None else self._with_rest(known)
        if self.search is None:
            entries = [replace(entry, deferred=False) for entry in entries]
        return read_toolset(
            entries,
            self._parsed,
            hosted=self.hosted,
            on_invalid=self.on_invalid,
            optional=self.mcp_names,
            known=None if known is None else known.deferred,
        )

    def _all(self, tools: Sequence[object]) -> list[Entry]:
        entries: list[Entry] = []
        shown = [self._read(entry, f"tools[{at}]", entries) for at, entry in enumerate(tools)]
        self.shown = tuple(tool for tool in shown if tool is not None)
        self._alone = _alone(entries)
        return entries

    def _with_rest(self, known: KnownArray) -> list[Entry]:
        """Return the tools that are loaded, after the rest was read."""
        entries, shown = [*known.loaded], []
        for at, entry in known.rest:
            made: list[Entry] = []
            shown.append(self._read(entry, f"tools[{at}]", made))
            entries += ((at, each) for each in made)
        self.shown = known.with_rest(shown)
        self.builtins |= known.builtins
        self.search, self._alone = known.search, known.alone
        return [entry for _, entry in sorted(entries, key=itemgetter(0))]

    @property
    def mcp_names(self) -> frozenset[str]:
        return frozenset(tool.name for entry in self.mcp for tool in entry.allowed)

    def define(self, tools: Sequence[object], path: str) -> tuple[Tool, ...]:
        """Parse the tools of an item. `path`: of the array."""
        entries: list[Entry] = []
        for at, entry in enumerate(tools):
            self._read(entry, f"{path}[{at}]", entries)
        return self._parsed(entries, self.on_invalid)

    def _read(
        self, entry: object, path: str, entries: list[Entry], namespace: str = ""
    ) -> dict[str, Any] | None:
        """The tool as the response repeats it; None if it is left out. Its functions and custom
        tools are added to `entries`."""
        if not isinstance(entry, dict):
            raise InvalidTools(f"{path!r} must be an object.", param=path)
        kind = entry.get("type")
        if (other := other_form(entry, "the Responses API")) is not None:
            raise InvalidTools(f"{path!r} is no tool of the Responses API. {other}", param=path)
        if kind in ("function", "custom"):
            entries.append(client_entry(kind, entry, path, namespace))
            return shown_tool(kind, entry)
        if kind == "namespace" and not namespace:
            return self._read_namespace(entry, path, entries)
        if kind == SEARCH and not namespace:
            return self._read_search(entry, path, entries)
        engine = self.client.search_engine
        if engine is not None and kind in WEB_SEARCHES and not namespace:
            # Further members have no effect: the search engine is the operator's.
            fields = Fields(entry, path)
            filters = Fields(fields.mapping("filters") or {}, fields.path("filters"))
            domains = Domains(read_domains(filters, "allowed_domains"))
            self.web_search = WebSearch(engine, self.client.seal, domains)
            entries.append(function_entry(path, FUNCTION))
            return {name: entry.get(name) for name in WEB_SEARCH_FIELDS}
        if (builtin := builtin_tool(entry)) is not None and not namespace:
            check_fields(builtin.type, entry, path)
            self.builtins.add(builtin.type)
            entries.append(function_entry(path, function_of(builtin, Fields(entry, path))))
            return shown_tool(builtin.type, entry)
        if kind == MCP and path in self.client.mcp and not namespace:
            return self._read_mcp(Fields(entry, path), entries)
        if self.hosted.leaves_out(entry, path):
            return None
        raise unknown_type(kind, path)

    def _read_mcp(self, fields: Fields, entries: list[Entry]) -> dict[str, Any]:
        made = read_entry(fields, self.client.mcp[fields.place])
        self.mcp.append(made)
        deferred = fields.flag(DEFERRED) is True
        for tool in made.allowed:
            entries.append(function_entry(fields.place, tool.function(), deferred=deferred))
        return {
            name: value
            for name, value in fields.values.items()
            if value is not None and name not in CREDENTIALS
        }

    def _read_search(
        self, entry: dict[str, Any], path: str, entries: list[Entry]
    ) -> dict[str, Any]:
        function = search_tool(Fields(entry, path))
        self.search = "client" if entry.get("execution") == "client" else "server"
        if self.search == "server":
            function = search_function(SEARCH, "bm25")
        entries.append(function_entry(path, function))
        return {**{name: entry.get(name) for name in SEARCH_FIELDS}, "execution": self.search}

    def _read_namespace(
        self, entry: dict[str, Any], path: str, entries: list[Entry]
    ) -> dict[str, Any]:
        check_fields("namespace", entry, path)
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

    def _parsed(self, entries: Sequence[Entry], on_invalid: OnInvalid) -> tuple[Tool, ...]:
        return parse_entries(
            [self._in_namespace(entry) for entry in entries],
            on_invalid,
            open_objects=self.open_objects,
            words=in_own_words,
        )

    def _in_namespace(self, entry: Entry) -> Entry:
        """The Agents SDK knows the calls of a deferred function without a namespace by a namespace
        that is its name."""
        is_alone = not entry.namespace and entry.name in self._alone
        return replace(entry, namespace=entry.name or "") if is_alone else entry


def _read_apart(tools: SharedTools) -> KnownArray | None:
    """Read an array apart from a request. None: it must be read with each, to find its first
    error, or because its deferred tools are loaded or have the names of others."""
    reader = ToolReader(HostedTools(omit=False))
    loaded: list[tuple[int, Entry]] = []
    deferred: list[Entry] = []
    shown: list[dict[str, Any] | None] = []
    rest: list[tuple[int, Any]] = []
    for at, tool in enumerate(tools):
        made: list[Entry] = []
        try:
            shown.append(reader._read(tool, f"tools[{at}]", made))
        except InvalidRequest:
            kind = tool.get("type") if isinstance(tool, dict) else None
            if not isinstance(kind, str) or not is_hosted(kind) or kind.startswith(SEARCH):
                return None
            shown.append(None)
            rest.append((at, tool))
        for entry in made:
            if entry.deferred:
                deferred.append(entry)
            else:
                loaded.append((at, entry))
    known = known_by_name(deferred, {WEB_SEARCH, *(entry.name for _, entry in loaded)})
    if known is None or reader.search is None:
        return None
    return KnownArray(
        loaded,
        known,
        with_runs(shown),
        rest,
        alone=_alone(deferred),
        builtins=frozenset(reader.builtins),
        search=reader.search,
    )


def _alone(entries: Iterable[Entry]) -> frozenset[str | None]:
    return frozenset(
        entry.name
        for entry in entries
        if entry.deferred and not entry.namespace and entry.tool["type"] == "function"
    )
