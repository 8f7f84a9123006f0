"""Texts of JSON: whether they end inside a string, which ones end a value, short values, and the
tokens and known endings that have such texts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ...tokens import masks
from ...tokens.masks import BitmaskRow, words_per_row
from ...tokens.units import mark_unit
from ..engines.engine import Matcher

MAX_RESTS = 24
"""Number of rests of a hint that are tried inside a string."""
SHORT_VALUES = (b'""', b"[]", b"{}", b"null", b"true", b"0", b"1")
"""Values of JSON that are tried before those of the hints, which belong to certain members."""


def rests_of(text: str) -> list[int]:
    """Where the rests of a text that are tried begin, the shortest rest first."""
    offsets = range(len(text))
    if len(text) <= MAX_RESTS:
        return [*reversed(offsets)]
    return [*reversed(offsets[-MAX_RESTS // 2 :]), *reversed(offsets[: MAX_RESTS // 2])]


def closes_string(text: bytes) -> bool:
    """Return whether the text ends the string that it is written in, and perhaps the values around
    it."""
    return text.startswith(b'"') and not text[1:].strip(b"}]\n")


def closes_container(text: bytes) -> bool:
    """Return whether the text, outside a string, ends values."""
    return bool(text) and not text.strip(b"}]\n") and text != b"\n"


def closes_value(text: bytes) -> bool:
    """Return whether the text, outside a string, ends values or is the empty string."""
    rest = text.removeprefix(b'""')
    return bool(text) and not rest.strip(b"}]\n") and text != b"\n"


def separates(text: bytes) -> bool:
    """Return whether the text, outside a string, ends a value before another one."""
    return text in (b",", b", ")


@dataclass(frozen=True)
class Scan:
    """Whether the JSON text so far ends inside a string, and whether its last character is a
    backslash."""

    in_string: bool = False
    escaped: bool = False

    def after(self, text: bytes) -> Scan:
        if b'"' not in text and b"\\" not in text:
            return Scan(self.in_string) if self.escaped and text else self
        in_string, escaped = self.in_string, self.escaped
        for byte in text:
            if escaped:
                escaped = False
            elif in_string and byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                in_string = not in_string
        return Scan(in_string, escaped)


MAX_CHAIN_TOKENS = 64
"""Masks with more tokens than this are not searched for forced text."""


class TokenTable:
    """The tokens of a vocabulary, among which a search for a completion chooses. What tokens
    end in JSON is given as rows of masks."""

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


Path = tuple[int, ...]
"""Tokens that complete a grammar's text."""
MAX_TRIED_RESTS = 12
"""Maximum number of rests of a completion that are tried at one position. Most that can't follow
are refused at their first tokens, in a fraction of the time of a mask."""


def ends_text(matcher: Matcher, path: Path) -> bool:
    """Return whether the tokens end the matcher's text. The matcher is unchanged."""
    taken = 0
    for token in path:
        if matcher.finished or not matcher.accept(token):
            break
        taken += 1
    ends = matcher.finished and taken == len(path)
    matcher.rollback(taken)
    return ends


def ending_rest(matcher: Matcher, row: BitmaskRow, path: Path) -> Path:
    """Return the longest rest of `path` that ends the matcher's text; empty if there is none among
    the `MAX_TRIED_RESTS` longest that may follow. `row` is the matcher's mask."""
    if not path:
        return ()
    tokens = np.array(path)
    allowed = np.flatnonzero(row[tokens >> 5] >> (tokens & 31) & 1)
    for start in allowed[:MAX_TRIED_RESTS]:
        if ends_text(matcher, path[start:]):
            return path[start:]
    return ()
