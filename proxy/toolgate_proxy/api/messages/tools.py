"""`tools` of the Messages API. They have a schema of the client, or a known one of Anthropic
(client_tools)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from toolgate_core.errors import InvalidTools, UnsupportedParameter
from toolgate_core.tools import OnInvalid, Tool, refuse
from toolgate_core.toolset import Toolset

from ...request_fields import Fields
from ...shared_tools import DEFERRED, not_deferred
from ..shared.hosted_tools import HostedTools
from ..shared.tool_entries import (
    Entry,
    KnownEntries,
    function_entry,
    known_entries,
    parse_entries,
    read_toolset,
)
from ..shared.tool_search import Method, method_of, search_function
from ..shared.tools import WRITTEN, other_form
from ..shared.web_fetch import FUNCTION as FETCH
from ..shared.web_fetch import WebFetch
from ..shared.web_search import FUNCTION, WebSearch
from ..surface import ANY_CLIENT, Client
from .client_tools.table import client_tool, known_fields, versions
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


@dataclass
class ToolReader:
    """Parses the tools of one request. `client`: the sender. Searches in the web, and fetches, for
    which it has nothing are hosted tools. `on_invalid` gets the errors of names and schemas."""

    hosted: HostedTools
    open_objects: bool = False
    client: Client = ANY_CLIENT
    on_invalid: OnInvalid = refuse
    eager: set[str] = field(default_factory=set)
    """Names of the tools whose input is streamed before it is complete."""
    mcp: McpReader = field(default_factory=lambda: McpReader({}))
    """The MCP servers of the request, which were read before."""
    searches: dict[str, Method] = field(default_factory=dict)
    """The searches for deferred tools that the request offers, by name."""
    web_searches: dict[str, WebSearch] = field(default_factory=dict)
    """By name."""
    given: object = None
    """What the model has not written of the conversation."""
    web_fetches: dict[str, WebFetch] = field(default_factory=dict)
    """By name."""

    def toolset(self, tools: Sequence[object]) -> Toolset:
        """Raise InvalidRequest, InvalidTools and UnsupportedParameter."""
        known = None if self.mcp.offered else self._known(tools)
        given = enumerate(tools) if known is None else not_deferred(tools)
        own = [self._entry(entry, path) for path, entry in self._offered(given)]
        self.eager |= frozenset() if known is None else known.eager
        self.eager.update(each.function["name"] for each in own if each.eager)
        listed = [
            function_entry(each.path, each.tool.function(), deferred=each.deferred)
            for each in self.mcp.offered
        ]
        return read_toolset(
            [*own, *listed],
            self._parsed,
            hosted=self.hosted,
            on_invalid=self.on_invalid,
            optional=self.mcp_names,
            known=known,
        )

    def _known(self, tools: Sequence[object]) -> KnownEntries | None:
        return known_entries(
            tools,
            f"Messages, {self._is_eager}",
            partial(_client_entry, is_eager=self._is_eager),
            is_search=lambda tool: isinstance(tool, dict) and bool(method_of(tool.get("type"))),
        )

    @property
    def _is_eager(self) -> bool:
        """Whether the input of tools that do not say it is streamed before it is complete."""
        return EAGER_BETA in self.client.headers.get("anthropic-beta", "")

    @property
    def mcp_names(self) -> frozenset[str]:
        return frozenset(each.tool.name for each in self.mcp.offered)

    def _offered(self, tools: Iterable[tuple[int, object]]) -> Iterator[tuple[str, object]]:
        for at, entry in tools:
            path, kind = f"tools[{at}]", entry.get("type") if isinstance(entry, dict) else None
            if self.mcp.takes(kind):
                continue
            if self._runs(kind) or not self.hosted.leaves_out(entry, path):
                yield path, entry

    def _runs(self, kind: object) -> bool:
        """Return whether the gateway runs tools of this type."""
        if not isinstance(kind, str):
            return False
        searches = self.client.search_engine is not None and WEB_SEARCH.fullmatch(kind) is not None
        fetches = self.client.fetcher is not None and WEB_FETCH.fullmatch(kind) is not None
        return searches or fetches or method_of(kind) is not None

    def define(self, definition: object, path: str) -> tuple[Tool, ...]:
        """Parse a definition in a message. It is empty if the tool is left out."""
        if self.hosted.leaves_out(definition, path):
            return ()
        entry = self._entry(definition, path)
        if entry.eager:
            self.eager.add(entry.function["name"])
        return self._parsed([entry], self.on_invalid)

    def _entry(self, entry: object, path: str) -> Entry:
        if not isinstance(entry, dict):
            raise InvalidTools(f"{path!r} must be an object.", param=path)
        fields, client = Fields(entry, path), self.client
        if (method := method_of(fields.text("type"))) is not None:
            name = search_name(fields, SEARCH_FIELDS)
            self.searches[name] = method
            return function_entry(path, search_function(name, method))
        if client.search_engine is not None and WEB_SEARCH.fullmatch(fields.text("type") or ""):
            name = search_name(fields, WEB_SEARCH_FIELDS)
            self.web_searches[name] = web_search(fields, client.search_engine, client.seal)
            return function_entry(path, {**FUNCTION, "name": name})
        if client.fetcher is not None and WEB_FETCH.fullmatch(fields.text("type") or ""):
            name = search_name(fields, WEB_FETCH_FIELDS)
            self.web_fetches[name] = web_fetch(
                fields, client.fetcher, self.given, self.web_searches.values()
            )
            return function_entry(path, {**FETCH, "name": name})
        return _client_entry(entry, path, is_eager=self._is_eager)

    def _parsed(self, entries: Sequence[Entry], on_invalid: OnInvalid) -> tuple[Tool, ...]:
        return parse_entries(
            entries, on_invalid, open_objects=self.open_objects, words=_in_own_words
        )


def _client_entry(entry: dict[str, Any], path: str, *, is_eager: bool) -> Entry:
    """Read a tool that the client runs. `is_eager`: for one that does not say it."""
    fields, function = Fields(entry, path), _function(entry, path)
    own = fields.flag("eager_input_streaming")
    eager = is_eager if own is None else own
    made = function_entry(path, function, deferred=fields.flag(DEFERRED) is True)
    return replace(made, eager=eager)


def _function(entry: dict[str, Any], path: str) -> dict[str, Any]:
    """The function in OpenAI's form, as templates show it."""
    if (other := other_form(entry, "the Messages API")) is not None:
        raise InvalidTools(f"{path!r} is no tool of the Messages API. {other}", param=path)
    fields = Fields(entry, path)
    kind = fields.text("type")
    known = known_fields(kind) or FIELDS
    if kind is not None and kind != "custom" and known is FIELDS:
        raise _unknown_type(kind, fields.path("type"))
    ignored = [each for each, values in IGNORED_VALUES.items() if entry.get(each) in values]
    fields.check_known((*known, *ignored))
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


def _in_own_words(text: str) -> str:
    return text.replace("].function", "]").replace("].parameters", "].input_schema")
