"""`tools` and `tool_choice` of the Messages API. Tools have a schema of the client, or a known one
of Anthropic (client_tools)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from toolgate_core.chat_request import NamedTool, ToolChoice
from toolgate_core.errors import InvalidRequest, InvalidTools, UnsupportedParameter
from toolgate_core.tools import OnInvalid, Tool, refuse
from toolgate_core.toolset import Toolset

from ...request_fields import Fields, unknown_value
from ...sealing import OwnerSeal
from ..shared.deferred_tools import read_toolset
from ..shared.hosted_tools import HostedTools, at_own_places, on_invalid_at
from ..shared.tool_search import Method, method_of, search_function
from ..shared.tools import WRITTEN, Mode, other_form, read_functions
from ..shared.web_fetch import FUNCTION as FETCH
from ..shared.web_fetch import PageFetcher, WebFetch
from ..shared.web_search import FUNCTION, SearchEngine, WebSearch
from .client_tools.table import client_tool, known_fields, versions
from .conversation.content import check_fields
from .mcp import McpReader
from .searches import (
    SEARCH_FIELDS,
    WEB_FETCH,
    WEB_FETCH_FIELDS,
    WEB_SEARCH,
    WEB_SEARCH_FIELDS,
    search_name,
    web_fetch,
    web_search,
)

FIELDS = (
    "type",
    "name",
    "description",
    "input_schema",
    "strict",
    "cache_control",
    "eager_input_streaming",
    "input_examples",
    "defer_loading",
)
IGNORED_VALUES: dict[str, tuple[object, ...]] = {"allowed_callers": (["direct"],)}
"""Further fields, by the values that have no effect."""
TOOLSETS = ("computer_toolset_", "browser_toolset_")
"""Beginnings of the types of sets of tools that Anthropic defines and clients run."""
EAGER_BETA = "fine-grained-tool-streaming-2025-05-14"


@dataclass(frozen=True)
class _Entry:
    path: str
    function: dict[str, Any]
    """In OpenAI's form, as templates show it."""
    deferred: bool


@dataclass
class ToolReader:
    """Parses the tools of one request. `betas`: the header `anthropic-beta`. `on_invalid` gets the
    errors of names and schemas."""

    hosted: HostedTools
    open_objects: bool = False
    betas: str = ""
    on_invalid: OnInvalid = refuse
    eager: set[str] = field(default_factory=set)
    """Names of the tools whose input is streamed before it is complete."""
    engine: SearchEngine | None = None
    """Searches the web. None: web searches are hosted tools that the gateway does not have."""
    seal: OwnerSeal | None = None
    """Of the sender."""
    mcp: McpReader = field(default_factory=lambda: McpReader({}))
    """The MCP servers of the request, which were read before."""
    searches: dict[str, Method] = field(default_factory=dict)
    """The searches for deferred tools that the request offers, by name."""
    web_searches: dict[str, WebSearch] = field(default_factory=dict)
    """By name."""
    fetcher: PageFetcher | None = None
    """Fetches web pages. None: web fetches are hosted tools that the gateway does not have."""
    given: object = None
    """What the model has not written of the conversation."""
    web_fetches: dict[str, WebFetch] = field(default_factory=dict)
    """By name."""

    def toolset(self, tools: Sequence[object]) -> Toolset:
        """Raise InvalidRequest, InvalidTools and UnsupportedParameter."""
        own = [self._entry(entry, path) for path, entry in self._offered(tools)]
        listed = [
            _Entry(each.path, each.tool.function(), each.deferred) for each in self.mcp.offered
        ]
        return read_toolset(
            [*own, *listed],
            self._parsed,
            name_of=lambda entry: entry.function["name"],
            function_of=lambda entry: entry.function,
            is_deferred=lambda entry: entry.deferred,
            hosted=self.hosted,
            on_invalid=self._leave_out,
        )

    @property
    def mcp_names(self) -> frozenset[str]:
        return frozenset(each.tool.name for each in self.mcp.offered)

    def _leave_out(self, name: str, error: InvalidRequest) -> None:
        """Leave out an invalid tool of an MCP server. The settings decide about others."""
        if name not in self.mcp_names:
            self.on_invalid(name, error)

    def _offered(self, tools: Sequence[object]) -> Iterator[tuple[str, object]]:
        for at, entry in enumerate(tools):
            path, kind = f"tools[{at}]", entry.get("type") if isinstance(entry, dict) else None
            if self.mcp.takes(kind):
                continue
            if self._runs(kind) or not self.hosted.leaves_out(entry, path):
                yield path, entry

    def _runs(self, kind: object) -> bool:
        """Return whether the gateway runs tools of this type."""
        if not isinstance(kind, str):
            return False
        has_engine = self.engine is not None and WEB_SEARCH.fullmatch(kind) is not None
        has_fetcher = self.fetcher is not None and WEB_FETCH.fullmatch(kind) is not None
        return has_engine or has_fetcher or method_of(kind) is not None

    def define(self, definition: object, path: str) -> tuple[Tool, ...]:
        """Parse a definition in a message. It is empty if the tool is left out."""
        if self.hosted.leaves_out(definition, path):
            return ()
        return self._parsed([self._entry(definition, path)], self.on_invalid)

    def _entry(self, entry: object, path: str) -> _Entry:
        if not isinstance(entry, dict):
            raise InvalidTools(f"{path!r} must be an object.", param=path)
        fields = Fields(entry, path)
        if (method := method_of(fields.text("type"))) is not None:
            name = search_name(fields, SEARCH_FIELDS)
            self.searches[name] = method
            return _Entry(path, search_function(name, method), deferred=False)
        if self.engine is not None and WEB_SEARCH.fullmatch(fields.text("type") or ""):
            name = search_name(fields, WEB_SEARCH_FIELDS)
            self.web_searches[name] = web_search(fields, self.engine, self.seal)
            return _Entry(path, {**FUNCTION, "name": name}, deferred=False)
        if self.fetcher is not None and WEB_FETCH.fullmatch(fields.text("type") or ""):
            name = search_name(fields, WEB_FETCH_FIELDS)
            self.web_fetches[name] = web_fetch(
                fields, self.fetcher, self.given, self.web_searches.values()
            )
            return _Entry(path, {**FETCH, "name": name}, deferred=False)
        function = _function(entry, path)
        eager = fields.flag("eager_input_streaming")
        if EAGER_BETA in self.betas if eager is None else eager:
            self.eager.add(function["name"])
        return _Entry(path, function, fields.flag("defer_loading") is True)

    def _parsed(self, entries: Sequence[_Entry], on_invalid: OnInvalid) -> tuple[Tool, ...]:
        def on_invalid_tool(name: str, error: InvalidRequest) -> None:
            message, param = _renamed(error.message), _renamed(error.param or "tools")
            own(name, error.reworded(message, param))

        paths = [entry.path for entry in entries]
        own = on_invalid_at(paths, on_invalid)
        read = read_functions(
            [entry.function for entry in entries],
            param="tools",
            open_objects=self.open_objects,
            on_invalid=on_invalid_tool,
        )
        tools = tuple(replace(tool, param=_renamed(tool.param)) for tool in read)
        return at_own_places(tools, paths)


def _function(entry: dict[str, Any], path: str) -> dict[str, Any]:
    """The function in OpenAI's form, as templates show it."""
    if (other := other_form(entry, "the Messages API")) is not None:
        raise InvalidTools(f"{path!r} is no tool of the Messages API. {other}", param=path)
    fields = Fields(entry, path)
    kind = fields.text("type")
    known = known_fields(kind) or FIELDS
    if kind is not None and kind != "custom" and known is FIELDS:
        raise _unknown_type(kind, fields.path("type"))
    for field_name, value in entry.items():
        ignored = value is None or value in IGNORED_VALUES.get(field_name, ())
        if field_name not in known and not ignored:
            raise _unknown_field(field_name, fields.path(field_name), known)
    function = client_tool(fields) or _own_function(fields)
    if entry.get("strict") is not None:
        function["strict"] = entry["strict"]
    return function


def _own_function(fields: Fields) -> dict[str, Any]:
    """The function of a tool that the client defines."""
    name = fields.text("name")
    if not name:
        raise InvalidTools(f"{fields.path('name')!r} is required.", param=fields.path("name"))
    schema = fields.values.get("input_schema")
    if not isinstance(schema, dict):
        where = fields.path("input_schema")
        problem = "is required" if schema is None else "must be an object"
        raise InvalidTools(
            f'{where!r} {problem}: a JSON Schema with the type "object".', param=where
        )
    function: dict[str, Any] = {"name": name}
    if (description := fields.text("description")) is not None:
        function["description"] = description
    function["parameters"] = schema
    return function


def _unknown_type(kind: str, path: str) -> UnsupportedParameter:
    if known := versions(kind):
        return UnsupportedParameter(
            f"{path!r} is {kind!r}, a version that is not supported. Use {' or '.join(known)}.",
            param=path,
        )
    if kind.startswith(TOOLSETS):
        return UnsupportedParameter(
            f"{path!r} is {kind!r}, a set of tools whose schemas only Anthropic's models know. "
            "Offer tools with a name, a description and an `input_schema` instead.",
            param=path,
        )
    return UnsupportedParameter(
        f"{path!r} is {kind!r}, which is not supported. Write the tool as "
        f"{WRITTEN['the Messages API']}.",
        param=path,
    )


def _unknown_field(name: str, path: str, known: Sequence[str]) -> UnsupportedParameter:
    reason = {
        "allowed_callers": "Only the model itself calls tools. Remove it.",
    }.get(name, f"A tool of this type has {', '.join(known[:-1])} and {known[-1]}.")
    return UnsupportedParameter(f"{path!r} is not supported. {reason}", param=path)


def _renamed(text: str) -> str:
    return text.replace("].parameters", "].input_schema")


MODES: dict[str, Mode] = {"auto": "auto", "any": "required", "none": "none"}
"""By the type of a choice that names no tool."""
CHOICE_TYPES = (*MODES, "tool")
CHOICE_KINDS = '"auto", "any" (a call is required), "tool" or "none"'
CHOICE = f"an object with the type {CHOICE_KINDS}"


@dataclass(frozen=True)
class RequestedChoice:
    choice: ToolChoice
    parallel: bool
    """Whether the response may have several calls."""


def read_tool_choice(given: object) -> RequestedChoice:
    """Raises InvalidRequest and UnsupportedParameter."""
    if given is None:
        return RequestedChoice("auto", parallel=True)
    if not isinstance(given, dict):
        written = '{"type": "{}"}'
        raise unknown_value("tool_choice", CHOICE, given, CHOICE_TYPES, suggestion=written)
    fields = Fields(given, "tool_choice")
    kind = fields.text("type")
    if kind is None or kind not in CHOICE_TYPES:
        raise unknown_value(fields.path("type"), CHOICE_KINDS, kind, CHOICE_TYPES)
    check_fields(fields, ("type", "name", "disable_parallel_tool_use"))
    parallel = not fields.flag("disable_parallel_tool_use")
    if kind == "tool":
        name = fields.text("name")
        if not name:
            raise fields.wrong("name", "the name of a tool")
        return RequestedChoice(NamedTool(name), parallel)
    if given.get("name") is not None:
        raise fields.wrong("name", 'left out, except with the type "tool"')
    return RequestedChoice(MODES[kind], parallel)
