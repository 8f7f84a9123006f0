"""What was read of an array of tools that requests share, apart from any of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

from ..shared.tool_entries import Entry, KnownEntries
from .shown_tools import SharedRun, Shown, is_deferred

Searcher = Literal["client", "server"]


@dataclass(frozen=True)
class KnownArray:
    loaded: Sequence[tuple[int, Entry]]
    """With their places in the array."""
    deferred: KnownEntries
    shown: Sequence[Shown | None]
    """The tools as responses repeat them. None for each of the rest."""
    rest: Sequence[tuple[int, Any]]
    """The hosted tools, with their places: what they are depends on the request. None is
    deferred."""
    alone: frozenset[str | None]
    """Names of the deferred functions without a namespace."""
    builtins: frozenset[str]
    """The types of the built-in tools."""
    search: Searcher
    """Who runs the search for deferred tools."""

    def with_rest(self, shown: Iterable[Shown | None]) -> tuple[Shown, ...]:
        """Return the tools as responses repeat them. `shown`: the rest; None for what is left
        out."""
        rest = iter(shown)
        tools = (next(rest) if each is None else each for each in self.shown)
        return tuple(each for each in tools if each is not None)


def with_runs(shown: Iterable[dict[str, Any] | None]) -> list[Shown | None]:
    """Return tools with one run in place of all deferred ones that follow each other."""
    made: list[Shown | None] = []
    for is_run, tools in groupby(shown, lambda tool: tool is not None and is_deferred(tool)):
        if is_run:
            made.append(SharedRun([tool for tool in tools if tool is not None]))
        else:
            made += tools
    return made
