"""The tokens of a vocabulary, among which a search for a completion chooses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from ...tokens import masks
from ...tokens.masks import BitmaskRow, words_per_row
from ...tokens.units import mark_unit
from ..engines.engine import Matcher
from .json_texts import closes_container, closes_string, closes_value, separates

MAX_CHAIN_TOKENS = 64
"""Masks with more tokens than this are not searched for forced text."""


class TokenTable:
    """What tokens end in JSON is given as rows of masks."""

    def __init__(
        self, token_bytes: Sequence[bytes], special: frozenset[int], marks: Collection[int]
    ) -> None:
        """`special` tokens are never part of a grammar's text."""
        self._bytes = token_bytes
        self._length = np.array([len(text) for text in token_bytes], dtype=np.int32)
        self._mark_units = {token: mark_unit(token) for token in marks}
        ordinary = [(i, text) for i, text in enumerate(token_bytes) if i not in special]
        self._ordinary = self._row(i for i, _ in ordinary)
        self.closing = {
            True: self._row(i for i, text in ordinary if closes_string(text)),
            False: self._row(i for i, text in ordinary if closes_value(text)),
        }
        """By whether the position is in a string: the tokens that end the value."""
        self.brackets = self._row(i for i, text in ordinary if closes_container(text))
        self.separators = self._row(i for i, text in ordinary if separates(text))

    def mask(self, matcher: Matcher) -> BitmaskRow:
        row = np.empty(words_per_row(len(self._bytes)), dtype=np.int32)
        matcher.fill(row)
        return row & self._ordinary

    def units(self, token: int) -> bytes:
        return self._mark_units.get(token, self._bytes[token])

    def longest(self, tokens: masks.TokenIds) -> int:
        return int(tokens[np.argmax(self._length[tokens])])

    def by_length(self, tokens: masks.TokenIds, count: int) -> list[int]:
        """The `count` shortest tokens, and then as many of the longest."""
        ordered = tokens[np.argsort(self._length[tokens], kind="stable")]
        return [*map(int, ordered[:count]), *map(int, ordered[: count - 1 : -1][:count])]

    def are_chain(self, tokens: masks.TokenIds, longest: int) -> bool:
        """Whether all tokens are prefixes of one text."""
        text = self._bytes[longest]
        return len(tokens) <= MAX_CHAIN_TOKENS and all(
            text.startswith(self._bytes[i]) for i in tokens
        )

    def _row(self, tokens: Iterable[int]) -> BitmaskRow:
        return masks.pack(masks.token_ids(tokens), len(self._bytes))
