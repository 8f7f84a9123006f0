"""What every automaton of one model shares: the marks, the prescribed texts, the static masks."""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import lru_cache

import numpy as np

from ..grammars.compiled_grammar import MeasuredGrammar
from ..grammars.completion import Completion
from ..vocabulary import Vocabulary
from . import masks
from .call_prefix import CallPrefixes
from .candidates import CandidateSet
from .spelled_marks import SpelledMark

SETS = 256
"""Sets of tools whose beginnings are remembered."""
FREE = 256
"""Masks of free phases that are remembered: a few for all, and one for each set of stop tokens."""


def _given(mark: int | None) -> frozenset[int]:
    return frozenset() if mark is None else frozenset({mark})


class Rules:
    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary_size = vocabulary.size
        self.marks = vocabulary.marks
        self.special = vocabulary.special
        failing = [self.marks.failure] if self.marks.failure is not None else self.marks.end_of_turn
        self.failure = masks.Allow(masks.ids(failing))
        """What a sequence whose enforcement broke may still say."""
        dialect = vocabulary.dialect
        self.after_reasoning = vocabulary.encode(dialect.after_reasoning)
        self.between_calls = (
            *vocabulary.encode(dialect.call_separator),
            *(mark for mark in (self.marks.call_begin,) if mark is not None),
        )
        mark = dialect.call_begin.encode() if dialect else b""
        self._spelling = (
            SpelledMark(mark, vocabulary.token_bytes, vocabulary.special) if mark else None
        )
        self.token_bytes = vocabulary.token_bytes
        self.completion = Completion(vocabulary.token_bytes, vocabulary.special)
        self._texts = self.completion.texts
        ordinary = np.setdiff1d(np.arange(vocabulary.size), masks.ids(vocabulary.special))
        self._ordinary = masks.pack(ordinary, vocabulary.size)
        self._heads = lru_cache(SETS)(lambda heads: CallPrefixes(heads, self._texts))
        self._static = lru_cache(FREE)(self._free_but)
        self.thought_end = _given(self.marks.reasoning_end)
        thinking, calling = _given(self.marks.reasoning_begin), _given(self.marks.call_begin)
        self._content_marks = {
            (False, False): frozenset[int](),
            (True, False): thinking,
            (False, True): calling,
            (True, True): thinking | calling,
        }

    def union(self, grammars: Sequence[MeasuredGrammar]) -> CandidateSet:
        heads = self._heads_of(grammars)
        return CandidateSet(grammars, heads, self._texts, self.token_bytes, self._ordinary)

    def prepare(self, grammars: Sequence[MeasuredGrammar]) -> None:
        """Works out ahead what hundreds of tools begin with, and where they part: milliseconds that
        a step need not wait for."""
        heads = self._heads_of(grammars)
        first = heads.at(b"")
        if first is not None:
            heads.at(first.forced)

    def _heads_of(self, grammars: Sequence[MeasuredGrammar]) -> CallPrefixes:
        return self._heads(tuple(grammar.head for grammar in grammars))

    def content_marks(self, thinks: bool, calls: bool) -> frozenset[int]:
        """Those that may come in content, in which reasoning or a call may begin."""
        return self._content_marks[thinks, calls]

    def free(
        self, allowed: frozenset[int], tail: bytes, banned: Set[int] = frozenset()
    ) -> masks.Forbid:
        """All text but `banned`, and of the special tokens those in `allowed`. Shared between
        sequences, except for what a request bans and for the rare step at which a spelt-out mark
        could be completed."""
        static = self._static(allowed)
        completing = self._spelling.completing(tail) if self._spelling and tail else frozenset()
        if not completing and not banned:
            return static
        return masks.Forbid(np.union1d(static.ids, masks.ids(completing | banned)))

    def _free_but(self, allowed: frozenset[int]) -> masks.Forbid:
        """All text, and of the special tokens those in `allowed`."""
        whole = self._spelling.whole if self._spelling else frozenset()
        return masks.Forbid(masks.ids((self.special - allowed) | whole))

    def spelling(self, tail: bytes) -> frozenset[int]:
        """Ordinary tokens that may not come after `tail` in a free phase."""
        if self._spelling is None:
            return frozenset()
        if not tail:
            return self._spelling.whole
        return self._spelling.whole | self._spelling.completing(tail)

    def tail(self, before: bytes, token: int) -> bytes:
        """As much of the text's end as the spelling of a mark can need."""
        if self._spelling is None:
            return b""
        return self._spelling.tail(before + self.token_bytes[token])
