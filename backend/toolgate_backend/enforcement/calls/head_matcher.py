"""The matcher of a whole call: its opening and head as fixed text, then the tool's grammar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import NoTokenAllowed
from ...grammars.engines.engine import Matcher
from ...tokens import masks
from ...tokens.masks import BitmaskRow
from ...tokens.units import TokenIndex


@dataclass(frozen=True)
class CallVocabulary:
    """The tokens from which calls are made."""

    token_index: TokenIndex
    unit_bytes: Sequence[bytes]
    refused: frozenset[int]
    """The special tokens that are never part of a grammar's text."""
    allowed: BitmaskRow
    """The bits of all other tokens."""


class HeadMatcher:
    """Matches `head`, then what `grammar` matches. `prefix` is the fixed text with which every text
    of the grammar begins. A token may extend from the head into the prefix, but not beyond it."""

    def __init__(
        self,
        head: bytes,
        grammar: Matcher,
        prefix: bytes,
        vocabulary: CallVocabulary,
    ) -> None:
        self._head = head
        self._grammar = grammar
        self._text = head + prefix
        self._vocabulary = vocabulary
        self._at = 0  # position in the head
        self._history: list[tuple[int, int]] = []  # by token: position before it, grammar's tokens

    def write(self, text: bytes) -> bool:
        """Begin with `text`, which is part of the head and the prefix."""
        return self._advance(text) is not None

    def accept(self, token: int) -> bool:
        before = self._at
        if before == len(self._head):
            if token in self._vocabulary.refused or not self._grammar.accept(token):
                return False
            self._history.append((before, 1))
            return True
        taken = self._advance(self._vocabulary.unit_bytes[token])
        if taken is None:
            return False
        self._history.append((before, taken))
        return True

    def _advance(self, text: bytes) -> int | None:
        """Consume `text`; the number of tokens that the grammar took, None if it does not match."""
        rest = self._head[self._at :]
        if rest.startswith(text):
            self._at += len(text)
            return 0
        if not text.startswith(rest) or not self._text.startswith(text, self._at):
            return None
        tokens = self._vocabulary.token_index.cover(text[len(rest) :])
        for taken, token in enumerate(tokens or ()):
            if not self._grammar.accept(token):
                self._grammar.rollback(taken)
                return None
        if tokens is None:
            return None
        self._at = len(self._head)
        return len(tokens)

    def rollback(self, count: int) -> None:
        grammar_tokens = 0
        for _ in range(count):
            self._at, taken = self._history.pop()
            grammar_tokens += taken
        if grammar_tokens:
            self._grammar.rollback(grammar_tokens)

    def fill(self, row: BitmaskRow) -> None:
        if self._at == len(self._head):
            self._grammar.fill(row)
            row &= self._vocabulary.allowed
            return
        tokens = self._vocabulary.token_index.prefixes_of(self._text[self._at :])
        if not tokens:
            raise NoTokenAllowed("No token spells the text that must come next in this call.")
        row[:] = masks.pack(masks.token_ids(tokens), len(row) * 32)

    def forced(self) -> bytes:
        if self._at == len(self._head):
            return self._grammar.forced()
        return self._text[self._at :]

    @property
    def finished(self) -> bool:
        return self._at == len(self._head) and self._grammar.finished

    @property
    def complete(self) -> bool:
        return self._at == len(self._head) and self._grammar.complete
