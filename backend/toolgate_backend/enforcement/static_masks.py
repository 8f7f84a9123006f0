"""Data shared by all automata of one model: marks, prescribed texts, static masks."""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import lru_cache

import numpy as np

from ..grammars.compiled_grammar import MeasuredGrammar
from ..grammars.completion import Completion
from ..tokens import masks
from ..tokens.vocabulary import Vocabulary
from .call_prefix import CallPrefixes
from .candidates import CandidateSet
from .spelled_marks import SpelledMark

CACHED_TOOL_SETS = 256
"""Maximum number of tool sets whose call prefixes are cached."""
CACHED_FREE_MASKS = 256
"""Maximum number of cached masks of free phases: a few for all requests, and one for each set of
stop tokens."""


class StaticMasks:
    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary_size = vocabulary.size
        self.marks = vocabulary.marks
        self.special = vocabulary.special
        failing = [self.marks.failure] if self.marks.failure is not None else self.marks.end_of_turn
        self.failure_mask = masks.Allow(masks.token_ids(failing))
        """The mask of a sequence whose enforcement has failed."""
        dialect = vocabulary.dialect
        self.after_reasoning = vocabulary.encode(dialect.after_reasoning)
        self.between_calls = (
            *vocabulary.encode(dialect.call_separator),
            *(mark for mark in (self.marks.call_begin,) if mark is not None),
        )
        mark = dialect.call_begin.encode() if dialect else b""
        self._spelled_mark = (
            SpelledMark(mark, vocabulary.token_bytes, vocabulary.special) if mark else None
        )
        self.token_bytes = vocabulary.token_bytes
        self.completion = Completion(vocabulary.token_bytes, vocabulary.special)
        self._token_index = self.completion.token_index
        ordinary = np.setdiff1d(np.arange(vocabulary.size), masks.token_ids(vocabulary.special))
        self._ordinary = masks.pack(ordinary, vocabulary.size)
        self._call_prefixes = lru_cache(CACHED_TOOL_SETS)(
            lambda prefixes: CallPrefixes(prefixes, self._token_index)
        )
        self._free_text = lru_cache(CACHED_FREE_MASKS)(self._create_free_text_mask)
        self.reasoning_end_marks = _mark_set(self.marks.reasoning_end)
        reasoning, call = _mark_set(self.marks.reasoning_begin), _mark_set(self.marks.call_begin)
        self._content_marks = {
            (False, False): frozenset[int](),
            (True, False): reasoning,
            (False, True): call,
            (True, True): reasoning | call,
        }

    def candidate_set(self, grammars: Sequence[MeasuredGrammar]) -> CandidateSet:
        prefixes = self._prefixes_of(grammars)
        return CandidateSet(grammars, prefixes, self._token_index, self.token_bytes, self._ordinary)

    def prepare_prefixes(self, grammars: Sequence[MeasuredGrammar]) -> None:
        """Compute the common prefix of the tools, and the position at which they diverge, before
        the first step needs them. For hundreds of tools this takes milliseconds."""
        prefixes = self._prefixes_of(grammars)
        first = prefixes.position_after(b"")
        if first is not None:
            prefixes.position_after(first.forced)

    def _prefixes_of(self, grammars: Sequence[MeasuredGrammar]) -> CallPrefixes:
        return self._call_prefixes(tuple(grammar.fixed_prefix for grammar in grammars))

    def content_marks(self, *, may_reason: bool, may_call: bool) -> frozenset[int]:
        """The marks allowed in content: the beginning of reasoning, of a call, or both."""
        return self._content_marks[may_reason, may_call]

    def free_text_mask(
        self, allowed: frozenset[int], partial_mark: bytes, banned: Set[int] = frozenset()
    ) -> masks.Forbid:
        """All text except `banned`, and of the special tokens only `allowed`.

        Sequences share this mask, unless their request bans tokens, or a token could complete a
        spelled mark at this step, which is rare.
        """
        static = self._free_text(allowed)
        completing = (
            self._spelled_mark.completing(partial_mark)
            if self._spelled_mark and partial_mark
            else frozenset()
        )
        if not completing and not banned:
            return static
        return masks.Forbid(np.union1d(static.ids, masks.token_ids(completing | banned)))

    def _create_free_text_mask(self, allowed: frozenset[int]) -> masks.Forbid:
        """All text, and of the special tokens only `allowed`."""
        containing = self._spelled_mark.containing if self._spelled_mark else frozenset()
        return masks.Forbid(masks.token_ids((self.special - allowed) | containing))

    def completes_mark(self, partial_mark: bytes, token: int) -> bool:
        """Whether an ordinary token would complete a spelled mark after `partial_mark`."""
        if self._spelled_mark is None:
            return False
        if token in self._spelled_mark.containing:
            return True
        return bool(partial_mark) and token in self._spelled_mark.completing(partial_mark)

    def partial_mark(self, before: bytes, token: int) -> bytes:
        """The beginning of a spelled mark at the end of the text; `before` is the previous one."""
        if self._spelled_mark is None:
            return b""
        return self._spelled_mark.partial(before + self.token_bytes[token])


def _mark_set(mark: int | None) -> frozenset[int]:
    return frozenset() if mark is None else frozenset({mark})
