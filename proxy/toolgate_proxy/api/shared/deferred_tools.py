"""Tools with `defer_loading`, which the model is not offered until the conversation adds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from toolgate_core.errors import InvalidRequest
from toolgate_core.tools import TOOL_NAME, OnInvalid, Tool
from toolgate_core.toolset import Toolset

from .hosted_tools import HostedTools

MAX_LOADED = 1_000
"""Most tools of a request that are not deferred."""
MAX_TOOLS = 10_001
"""Most tools of a request: 10,000 and a search."""

Entry = TypeVar("Entry")
Read = Callable[[Sequence[Entry], OnInvalid], tuple[Tool, ...]]
"""Parses entries of `tools`."""


def read_toolset(
    entries: Sequence[Entry],
    read: Read[Entry],
    *,
    name_of: Callable[[Entry], str | None],
    function_of: Callable[[Entry], Mapping[str, Any]],
    is_deferred: Callable[[Entry], bool],
    hosted: HostedTools,
    on_invalid: OnInvalid,
) -> Toolset:
    """Return the tools of a request. `function_of`: the entry as a function in OpenAI's form, for
    searches. A deferred entry is parsed when it is added. If a search was
    left out that only a provider can run, nothing would add them, so they are loaded at once.

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
    later = {name: partial(_first, read, each) for name, each in deferred.items()}
    searchable = [function_of(each[0]) for each in deferred.values()]
    return Toolset(tools, later, left_out, leave_out, searchable)


def _first(read: Read[Entry], entries: Sequence[Entry], on_invalid: OnInvalid) -> Tool | None:
    """Return the tool; None if it is invalid and left out. Several entries have the same name:
    they are refused unless they are the same tool."""
    return next(iter(read(entries, on_invalid)), None)
