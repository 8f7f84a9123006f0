"""The interface between enforcement and the grammar engines.

A grammar describes the arguments of one tool's calls that the schema allows, with the text of the
call around them (tokens/call_form.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ...tokens.call_form import CallForm
from ...tokens.masks import BitmaskRow
from ..graph.free_strings import NOT_FREE, FreeTexts

MAX_PREFIX_BYTES = 256
"""Maximum length of a fixed prefix in bytes. A name and its envelope are shorter, but a constant
after them can have a hundred thousand bytes, and each position in a prefix is cached."""


class Matcher(Protocol):
    """The matcher of one call. A refused token leaves its state unchanged."""

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


class EngineMatcher(Matcher, Protocol):
    """A matcher of an engine, which may have limits."""

    def check(self) -> None:
        """Raise BackendError if the matcher has exceeded a limit of the engine. It then refuses
        every token."""
        ...


class CompiledGrammar(Protocol):
    @property
    def by_text(self) -> bool:
        """Whether matchers depend on the text alone, not on its tokens, and undo tokens at no
        cost."""
        ...

    @property
    def free(self) -> FreeTexts:
        """What is proven about the grammar's values."""
        ...

    @property
    def make(self) -> Callable[[], EngineMatcher]:
        """Makes matchers. Does not keep this object alive."""
        ...

    @property
    def fixed_prefix(self) -> bytes:
        """The text with which every call begins, as far as the engine can determine it; at most
        `MAX_PREFIX_BYTES`."""
        ...

    def matcher(self) -> Matcher: ...


class Engine(Protocol):
    name: str

    def compile(self, form: CallForm, name: str, parameters: dict[str, Any]) -> CompiledGrammar:
        """Raise GrammarRefused if the engine cannot enforce the schema soundly."""
        ...


class EagerEngine(Engine, Protocol):
    """An engine whose grammars are compiled at once."""

    @property
    def token_bytes(self) -> list[bytes]:
        """The bytes of each token."""
        ...

    def size(self, grammar: CompiledGrammar) -> int:
        """Size in memory in bytes; 0 for grammars of the other engine."""
        ...


class EmptyGrammar:
    """The grammar whose only text is the empty one, for candidates that are a fixed text, such as
    the end of a section."""

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
