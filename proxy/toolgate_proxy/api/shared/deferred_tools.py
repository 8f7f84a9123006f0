"""Tools with `defer_loading`, which the model is not offered until the conversation adds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from toolgate_core.chat_request import DeferredTool
from toolgate_core.errors import InvalidRequest
from toolgate_core.tools import TOOL_NAME, OnInvalid, Tool
from toolgate_core.toolset import Toolset

from ...shared_tools import DEFERRED, FUNCTIONS, SharedTools
from .hosted_tools import HostedTools
from .tools import function_name

MAX_LOADED = 1_000
"""Most tools of a request that are not deferred."""
MAX_TOOLS = 10_001
"""Most tools of a request: 10,000 and a search."""

Entry = TypeVar("Entry")
Read = Callable[[Sequence[Entry], OnInvalid], tuple[Tool, ...]]
"""Parses entries of `tools`."""


@dataclass(frozen=True)
class KnownEntries(Generic[Entry]):
    """Deferred entries."""

    by_name: Mapping[str, list[Entry]]
    searchable: Sequence[Mapping[str, Any]]
    """As functions."""


def known_entries(
    tools: Sequence[object],
    api: str,
    read: Callable[[dict[str, Any], str], Entry],
    *,
    name_of: Callable[[Entry], str | None],
    function_of: Callable[[Entry], Mapping[str, Any]],
    is_search: Callable[[object], bool],
    search_name: str | None = None,
) -> KnownEntries[Entry] | None:
    """Return the entries of SharedTools that are deferred, for `read_toolset`. None: all tools must
    be read together. There may be others of the same names, and an error is that of the first
    invalid one. `read`: reads one at its path, and depends on nothing else. `is_search`: whether a
    tool of another type is a search, which the gateway runs. `search_name`: its name, unless the
    tool has it."""

    def known(shared: SharedTools) -> KnownEntries[Entry] | None:
        if not all(_is_apart(tool) or is_search(tool) for _, tool in shared.others):
            return None
        by_name: dict[str, list[Entry]] = {}
        try:
            for at, tool in shared.deferred:
                entry = read(tool, f"tools[{at}]")
                name = name_of(entry)
                if name is None or not TOOL_NAME.fullmatch(name):
                    return None
                by_name.setdefault(name, []).append(entry)
        except InvalidRequest:
            return None
        names = {function_name(tool) for _, tool in shared.others} | {search_name}
        if not names.isdisjoint(by_name):
            return None
        return KnownEntries(by_name, [function_of(each[0]) for each in by_name.values()])

    return tools.kept(api, known) if isinstance(tools, SharedTools) else None


def _is_apart(tool: object) -> bool:
    """Return whether a tool is a function or a custom tool that is loaded."""
    if not isinstance(tool, dict) or tool.get("type") not in FUNCTIONS:
        return False
    function = tool.get("function")
    return not (isinstance(function, dict) and DEFERRED in function)


def read_toolset(
    entries: Sequence[Entry],
    read: Read[Entry],
    *,
    name_of: Callable[[Entry], str | None],
    function_of: Callable[[Entry], Mapping[str, Any]],
    is_deferred: Callable[[Entry], bool],
    hosted: HostedTools,
    on_invalid: OnInvalid,
    known: KnownEntries[Entry] | None = None,
) -> Toolset:
    """Return the tools of a request. `function_of`: the entry as a function in OpenAI's form, for
    searches. A deferred entry is parsed when it is added. If a search was left out that only a
    provider can run, nothing would add them, so they are loaded at once. `known`: further entries,
    which are deferred; then none of `entries` is.

    Raise InvalidRequest."""
    left_out = hosted.names

    def leave_out(name: str, error: InvalidRequest) -> None:
        on_invalid(name, error)
        left_out.add(name)

    at_once = hosted.has_search
    names = {name_of(entry) for entry in entries if at_once or not is_deferred(entry)}
    loaded: list[Entry] = []
    deferred: dict[str, list[Entry]] = {}
    for entry in entries:
        name = name_of(entry)
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
    tools = read(loaded, leave_out)
    if known is None:
        known = KnownEntries(deferred, [function_of(each[0]) for each in deferred.values()])
    return Toolset(tools, _Later(known.by_name, read), left_out, leave_out, known.searchable)


@dataclass(frozen=True)
class _Later(Mapping[str, DeferredTool], Generic[Entry]):
    entries: Mapping[str, Sequence[Entry]]
    read: Read[Entry]

    def __getitem__(self, name: str) -> DeferredTool:
        return partial(_first, self.read, self.entries[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


def _first(read: Read[Entry], entries: Sequence[Entry], on_invalid: OnInvalid) -> Tool | None:
    """Return the tool; None if it is invalid and left out. Several entries have the same name:
    they are refused unless they are the same tool."""
    return next(iter(read(entries, on_invalid)), None)
