"""Entries of `tools` as all APIs parse them. The model is not offered those with `defer_loading`
until the conversation adds them."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from toolgate_core.chat_request import DeferredTool
from toolgate_core.errors import InvalidRequest
from toolgate_core.tools import TOOL_NAME, OnInvalid, Tool
from toolgate_core.toolset import Toolset

from ...shared_tools import DEFERRED, FUNCTIONS, SharedTools
from ...tool_searches import SharedFunctions
from .hosted_tools import HostedTools
from .tools import function_name, function_of, read_tools

MAX_LOADED = 1_000
"""Most tools of a request that are not deferred."""
MAX_TOOLS = 10_001
"""Most tools of a request: 10,000 and a search."""
PLACE = re.compile(r"(?<![\w.])tools\[(\d+)\]")


@dataclass(frozen=True)
class Entry:
    path: str
    """Of the tool in the request."""
    tool: Any
    """In the form of chat completions."""
    deferred: bool = False
    namespace: str = ""
    """The namespace of the Responses API, if it has one."""
    eager: bool = False
    """Whether its input is streamed before it is complete, in the Messages API."""

    @property
    def name(self) -> str | None:
        return function_name(self.tool)

    @property
    def function(self) -> Mapping[str, Any]:
        function: Mapping[str, Any] = function_of(self.tool)
        return function


Parse = Callable[[Sequence[Entry], OnInvalid], tuple[Tool, ...]]


def function_entry(path: str, function: Mapping[str, Any], *, deferred: bool = False) -> Entry:
    """Return the entry of a function without an object around it."""
    return Entry(path, {"type": "function", "function": function}, deferred)


def parse_entries(
    entries: Sequence[Entry],
    on_invalid: OnInvalid,
    *,
    open_objects: bool,
    words: Callable[[str], str] = str,
) -> tuple[Tool, ...]:
    """Parse entries, at their own paths. `words`: changes paths of chat completions to those of the
    API in a text."""

    def path(found: re.Match[str]) -> str:
        at = int(found[1])
        return entries[at].path if at < len(entries) else found[0]

    def own(text: str) -> str:
        return PLACE.sub(path, words(text))

    def on_invalid_tool(name: str, error: InvalidRequest) -> None:
        on_invalid(own(name), error.reworded(own(error.message), own(error.param or "tools")))

    tools = read_tools(
        [entry.tool for entry in entries], open_objects=open_objects, on_invalid=on_invalid_tool
    )
    return tuple(
        replace(tool, namespace=entries[_place(tool)].namespace, param=own(tool.param))
        for tool in tools
    )


def _place(tool: Tool) -> int:
    """Return the place of the entry of a tool that was parsed with others."""
    found = PLACE.match(tool.param)
    assert found is not None
    return int(found[1])


@dataclass(frozen=True)
class KnownEntries:
    """Deferred entries."""

    by_name: Mapping[str, list[Entry]]
    searchable: Sequence[Mapping[str, Any]]
    """As functions."""
    eager: frozenset[str] = frozenset()
    """The names of those whose input is streamed before it is complete."""


def known_entries(
    tools: Sequence[object],
    api: str,
    read: Callable[[dict[str, Any], str], Entry],
    *,
    is_search: Callable[[object], bool],
    search_name: str | None = None,
) -> KnownEntries | None:
    """Return the entries of SharedTools that are deferred, for `read_toolset`. None: all tools must
    be read together. There may be others of the same names, and an error is that of the first
    invalid one. `read`: reads one at its path, and depends on nothing else. `is_search`: whether a
    tool of another type is a search, which the gateway runs. `search_name`: its name, unless the
    tool has it."""

    def known(shared: SharedTools) -> KnownEntries | None:
        if not all(_is_apart(tool) or is_search(tool) for _, tool in shared.others):
            return None
        try:
            entries = [read(tool, f"tools[{at}]") for at, tool in shared.deferred]
        except InvalidRequest:
            return None
        names = (function_name(tool) for _, tool in shared.others)
        return known_by_name(entries, {search_name, *names})

    return tools.kept(api, known) if isinstance(tools, SharedTools) else None


def known_by_name(deferred: Iterable[Entry], others: Set[str | None]) -> KnownEntries | None:
    """Return deferred entries for `read_toolset`. None: one has an invalid name, or one of the
    `others`."""
    by_name: dict[str, list[Entry]] = {}
    for entry in deferred:
        if entry.name is None or entry.name in others or not TOOL_NAME.fullmatch(entry.name):
            return None
        by_name.setdefault(entry.name, []).append(entry)
    return KnownEntries(
        by_name,
        SharedFunctions(each[0].function for each in by_name.values()),
        frozenset(name for name, each in by_name.items() if any(entry.eager for entry in each)),
    )


def _is_apart(tool: object) -> bool:
    """Return whether a tool is a function or a custom tool that is loaded."""
    if not isinstance(tool, dict) or tool.get("type") not in FUNCTIONS:
        return False
    function = tool.get("function")
    return not (isinstance(function, dict) and DEFERRED in function)


def read_toolset(
    entries: Sequence[Entry],
    parse: Parse,
    *,
    hosted: HostedTools,
    on_invalid: OnInvalid,
    optional: Container[str] = (),
    known: KnownEntries | None = None,
) -> Toolset:
    """Return the tools of a request. A deferred entry is parsed when it is added. If a search was
    left out that only a provider can run, nothing would add them, so they are loaded at once.
    `optional`: names of tools that are left out if they are invalid, whatever `on_invalid` does
    with others. `known`: further entries, which are deferred; then none of `entries` is.

    Raise InvalidRequest."""
    left_out = hosted.names

    def leave_out(name: str, error: InvalidRequest) -> None:
        if name not in optional:
            on_invalid(name, error)
        left_out.add(name)

    at_once = hosted.has_search
    names = {entry.name for entry in entries if at_once or not entry.deferred}
    loaded: list[Entry] = []
    deferred: dict[str, list[Entry]] = {}
    for entry in entries:
        name = entry.name
        # An invalid name is an error, and so are two tools of one name.
        if name is None or name in names or not TOOL_NAME.fullmatch(name):
            loaded.append(entry)
        else:
            deferred.setdefault(name, []).append(entry)
    if len(loaded) > MAX_LOADED:
        raise InvalidRequest(
            f"'tools' has {len(loaded):,} tools without `defer_loading`, but at most "
            f"{MAX_LOADED:,} are allowed. Defer some.",
            param="tools",
        )
    tools = parse(loaded, leave_out)
    if known is None:
        known = KnownEntries(deferred, [each[0].function for each in deferred.values()])
    return Toolset(tools, _Later(known.by_name, parse), left_out, leave_out, known.searchable)


@dataclass(frozen=True)
class _Later(Mapping[str, DeferredTool]):
    entries: Mapping[str, Sequence[Entry]]
    parse: Parse

    def __getitem__(self, name: str) -> DeferredTool:
        return partial(_first, self.parse, self.entries[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


def _first(parse: Parse, entries: Sequence[Entry], on_invalid: OnInvalid) -> Tool | None:
    """Return the tool; None if it is invalid and left out. Several entries have the same name:
    they are refused unless they are the same tool."""
    return next(iter(parse(entries, on_invalid)), None)
