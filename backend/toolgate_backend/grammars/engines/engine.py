"""The interface between enforcement and the grammar engines.

A grammar describes the arguments of one tool's calls that the schema allows, with the text of the
call around them (tokens/call_form.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, Protocol

from ...tokens.call_form import CallForm
from ...tokens.masks import BitmaskRow
from ..codecs.rules import TagText
from ..text_kinds import NOT_FREE, FreeTexts

MAX_PREFIX_BYTES = 256
"""Maximum length of a fixed prefix in bytes. A name and its envelope are shorter, but a constant
after them can have a hundred thousand bytes, and each position in a prefix is cached."""


class Matcher(Protocol):
    """The matcher of one call. A refused token leaves its state unchanged. It may have a limit of
    the engine: beyond it, it refuses every token."""

    def accept(self, token: int) -> bool: ...

    def rollback(self, count: int) -> None: ...

    def fill(self, row: BitmaskRow) -> None:
        """Overwrite `row` with the mask of the next token."""

    def forced(self) -> bytes:
        """Return the text that must come next, as far as the engine can determine it. The state is
        unchanged."""
        ...

    @property
    def finished(self) -> bool:
        """Whether the text is complete and nothing may follow."""
        ...

    @property
    def complete(self) -> bool:
        """Whether the text is complete, although more may follow, as in texts without an end
        marker."""
        ...

    def check(self) -> None:
        """Raise BackendError if the matcher has exceeded a limit of the engine."""
        ...


class CompiledGrammar:
    """The grammar of one tool's calls, or of another text."""

    def __init__(
        self,
        matcher: Callable[[], Matcher],
        *,
        prefix: bytes | None = None,
        free: FreeTexts = NOT_FREE,
        tags: Mapping[bytes, TagText] = MappingProxyType({}),
        size: int = 0,
        serialize: Callable[[], str] | None = None,
    ) -> None:
        """`prefix`: the text with which every call begins; None: as far as the engine can determine
        it."""
        self._prefix = prefix
        self.matcher = matcher
        """Makes matchers. Does not keep this object alive."""
        self.free = free
        """What is proven about the grammar's values."""
        self.tags = tags
        """What the text in tags is, by name (codecs/rules.py)."""
        self.size = size
        """Size in memory in bytes; 0 if the engine compiles lazily."""
        self.serialize = serialize
        """Return the grammar as text, without the vocabulary; None if it has no such form."""

    @cached_property
    def fixed_prefix(self) -> bytes:
        """The text with which every call begins, at most `MAX_PREFIX_BYTES`."""
        prefix = self.matcher().forced() if self._prefix is None else self._prefix
        return prefix[:MAX_PREFIX_BYTES]


class Engine(Protocol):
    name: str

    def compile(self, form: CallForm, name: str, parameters: dict[str, Any]) -> CompiledGrammar:
        """Raise GrammarRefused if the engine cannot enforce the schema soundly."""
        ...


def empty_grammar() -> CompiledGrammar:
    """Return a grammar whose only text is the empty one, for candidates that are a fixed text, such
    as the end of a section."""
    return CompiledGrammar(_EmptyMatcher, prefix=b"")


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
