"""Masks of the next token: rows of bits, and rows that are shared."""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

TokenIds = npt.NDArray[np.int64]
BitmaskRow = npt.NDArray[np.int32]
"""One bit for each token id in little-endian words: the layout of both xgrammar and llguidance."""
BitmaskRows = npt.NDArray[np.int32]
"""Several of these, one in each row of a contiguous matrix."""


def words_per_row(vocabulary_size: int) -> int:
    return (vocabulary_size + 31) // 32


def token_ids(tokens: object) -> TokenIds:
    """Return the unique ids of an iterable, sorted."""
    return np.array(sorted(set(tokens)), dtype=np.int64)  # type: ignore[call-overload]


def pack(tokens: Iterable[int], vocabulary_size: int) -> BitmaskRow:
    """Return a row with the bits of `tokens` set."""
    row = np.zeros(words_per_row(vocabulary_size), np.int32)
    allow(row, np.fromiter(tokens, np.int64))
    return row


def allow(row: BitmaskRow, tokens: TokenIds) -> None:
    """Set the bits of `tokens`."""
    bits = np.uint32(1) << (tokens & 31).astype(np.uint32)
    np.bitwise_or.at(row.view(np.uint32), tokens >> 5, bits)


def allows(row: BitmaskRow, tokens: TokenIds) -> npt.NDArray[np.bool_]:
    """Return whether the bit of each token is set."""
    bits: npt.NDArray[np.bool_] = row[tokens >> 5] >> (tokens & 31) & 1 != 0
    return bits


def unpack(words: BitmaskRow) -> TokenIds:
    """Return the tokens of a row. Only non-zero words are read, because most grammars allow few
    tokens."""
    (filled,) = words.nonzero()
    bits = np.unpackbits(words[filled].view(np.uint8), bitorder="little").reshape(-1, 32)
    row, column = bits.nonzero()
    return filled[row] * 32 + column


class Row:
    """One mask as a row of a bitmask. Rows with the same bits are one object, compared and hashed
    by identity: whoever has sent a row somewhere can tell that the next mask is already there."""

    __slots__ = ("__weakref__", "count", "view", "words")

    def __init__(self, data: bytes) -> None:
        self.words: BitmaskRow = np.frombuffer(data, dtype=np.int32)
        """Read-only. One bit for each token id, as in all bitmasks."""
        self.view = memoryview(data).cast("i")
        """The same words, of which one is read faster here."""
        self.count = int(np.bitwise_count(self.words.view(np.uint32)).sum())
        """Number of bits that are set."""

    def allows(self, token: int) -> bool:
        return bool(self.view[token >> 5] >> (token & 31) & 1)


class Rows:
    """All rows in use."""

    def __init__(self) -> None:
        self._rows: WeakValueDictionary[bytes, Row] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, words: BitmaskRow) -> Row:
        """Return the row with these bits. `words` is copied."""
        data = words.tobytes()
        return self._rows.get(data) or self._rows.setdefault(data, Row(data))
