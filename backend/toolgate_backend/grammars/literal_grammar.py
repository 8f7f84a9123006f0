"""The grammar of nothing: for candidates that are a fixed text, such as the end of a section."""

from __future__ import annotations

from collections.abc import Callable

from ..tokens.masks import BitmaskRow
from .engines.engine import EngineMatcher, Matcher
from .graph.free_strings import NOT_FREE


class EmptyGrammar:
    """A grammar whose only text is the empty text."""

    fixed_prefix = b""
    by_text = True
    free = NOT_FREE

    def matcher(self) -> Matcher:
        return _EmptyMatcher()

    @property
    def make(self) -> Callable[[], EngineMatcher]:
        return _EmptyMatcher


class _EmptyMatcher:
    finished = True
    complete = True

    def accept(self, token: int) -> bool:
        return False

    def rollback(self, count: int) -> None:
        assert count == 0

    def fill(self, row: BitmaskRow) -> None:
        row[:] = 0

    def forced(self) -> bytes:
        return b""

    def check(self) -> None:
        pass
