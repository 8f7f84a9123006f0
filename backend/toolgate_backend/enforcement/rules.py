"""What every automaton of one model shares: the marks, the prescribed texts, the static masks."""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np

from ..grammars.completion import Completion
from ..grammars.engine import words_for
from ..grammars.measured import MeasuredGrammar
from ..vocabulary import Vocabulary
from . import masks
from .spelling import Spelling
from .union import Union


class Rules:
    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary_size = vocabulary.size
        self.marks = vocabulary.marks
        self.special = vocabulary.special
        dialect = vocabulary.dialect
        self.after_reasoning = vocabulary.encode(dialect.after_reasoning)
        self.between_calls = (
            *vocabulary.encode(dialect.call_separator),
            *(mark for mark in (self.marks.call_begin,) if mark is not None),
        )
        mark = dialect.call_begin.encode() if dialect else b""
        self._spelling = (
            Spelling(mark, vocabulary.token_bytes, vocabulary.special) if mark else None
        )
        self.token_bytes = vocabulary.token_bytes
        self.completion = Completion(vocabulary.token_bytes, vocabulary.special)
        self._excluded = masks.pack(masks.ids(vocabulary.special), vocabulary.size)
        # Bits past the vocabulary belong to no token.
        self._excluded |= ~masks.pack(np.arange(vocabulary.size), vocabulary.size)
        self._free: dict[str, masks.Forbid] = {}

    def union(self, grammars: Sequence[MeasuredGrammar]) -> Union:
        return Union(grammars, words_for(self.vocabulary_size), self._excluded)

    def free(
        self, phase: str, allowed: Set[int | None], tail: bytes, banned: Set[int] = frozenset()
    ) -> masks.Forbid:
        """All text but `banned`, and of the special tokens those in `allowed`. Shared between
        sequences, except for what a request bans and for the rare step at which a spelt-out mark
        could be completed."""
        marks = {mark for mark in allowed if mark is not None}
        key = f"{phase}:{sorted(marks)}"
        static = self._free.get(key)
        if static is None:
            whole = self._spelling.whole if self._spelling else frozenset()
            static = masks.Forbid(masks.ids((self.special - marks) | whole), key)
            self._free[key] = static
        completing = self._spelling.completing(tail) if self._spelling and tail else frozenset()
        if not completing and not banned:
            return static
        ids = np.union1d(static.ids, masks.ids(completing | banned))
        return masks.Forbid(ids, None if banned else f"{key}:{sorted(completing)}")

    def spelling(self, tail: bytes) -> frozenset[int]:
        """Ordinary tokens that may not come after `tail` in a free phase."""
        if self._spelling is None:
            return frozenset()
        return self._spelling.whole | self._spelling.completing(tail)

    def tail(self, before: bytes, token: int) -> bytes:
        """As much of the text's end as the spelling of a mark can need."""
        if self._spelling is None:
            return b""
        text = before + self.token_bytes[token]
        return text[-self._spelling.reach :]
