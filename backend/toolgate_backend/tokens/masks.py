"""Masks of the next token, each in the representation that is cheapest to apply, and rows of a
bitmask that are shared."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

FEW_TOKENS = 8
"""Number of tokens up to which setting single bits is cheaper than copying a row."""
TokenIds = npt.NDArray[np.int64]
BitmaskRow = npt.NDArray[np.int32]
"""One bit for each token id in little-endian words: the layout of both xgrammar and llguidance."""
BitmaskRows = npt.NDArray[np.int32]
"""Several of these, one in each row of a contiguous matrix."""


def words_per_row(vocabulary_size: int) -> int:
    return (vocabulary_size + 31) // 32


@dataclass(frozen=True, eq=False)
class Forbid:
    """Every token except `ids` is allowed. The free phases share a few of these masks."""

    ids: TokenIds


@dataclass(frozen=True, eq=False)
class Allow:
    """Only `ids` are allowed."""

    ids: TokenIds


@dataclass(frozen=True, eq=False)
class Bits:
    """One row of a bitmask."""

    words: BitmaskRow


Mask = Forbid | Allow | Bits


def token_ids(tokens: object) -> TokenIds:
    """Return the unique ids of an iterable, sorted."""
    return np.array(sorted(set(tokens)), dtype=np.int64)  # type: ignore[call-overload]


@lru_cache(maxsize=256)
def single(token: int) -> Allow:
    """Cached: a forced token is usually one of a few marks."""
    return Allow(token_ids([token]))


def pack(tokens: TokenIds, vocabulary_size: int) -> BitmaskRow:
    """Return a row with the bits of `tokens` set."""
    words = np.zeros(words_per_row(vocabulary_size), dtype=np.uint32)
    np.bitwise_or.at(words, tokens >> 5, np.uint32(1) << (tokens & 31).astype(np.uint32))
    return words.view(np.int32)


def also_allow(mask: Allow | Bits, tokens: Collection[int]) -> Allow | Bits:
    """`mask`, with `tokens` allowed in addition."""
    if not tokens:
        return mask
    if isinstance(mask, Allow):
        return Allow(np.union1d(mask.ids, token_ids(tokens)))
    row = mask.words.copy()
    _set_bits(row, tokens)
    return Bits(row)


def _set_bits(row: BitmaskRow, tokens: Collection[int]) -> None:
    """Set the bits of a few tokens; `pack` is faster for many."""
    words = row.view(np.uint32)
    for token in tokens:
        words[token >> 5] |= np.uint32(1 << (token & 31))


def without(mask: Mask, tokens: Collection[int]) -> Mask | None:
    """`mask` without `tokens`; None if no token remains."""
    if isinstance(mask, Forbid):
        return Forbid(np.union1d(mask.ids, token_ids(tokens)))
    if isinstance(mask, Allow):
        left = np.setdiff1d(mask.ids, token_ids(tokens))
        return Allow(left) if left.size else None
    row = mask.words.copy()
    for token in tokens:
        row.view(np.uint32)[token >> 5] &= np.uint32(~(1 << (token & 31)) & 0xFFFFFFFF)
    return Bits(row) if row.any() else None


def unpack(words: BitmaskRow) -> TokenIds:
    """Return the tokens of a row. Only non-zero words are read, because most grammars allow few
    tokens."""
    (filled,) = words.nonzero()
    bits = np.unpackbits(words[filled].view(np.uint8), bitorder="little").reshape(-1, 32)
    row, column = bits.nonzero()
    return filled[row] * 32 + column


def render(mask: Mask, row: BitmaskRow, vocabulary_size: int) -> None:
    """Write `mask` into a row of a bitmask, for hosts that accept only bitmasks."""
    if isinstance(mask, Allow) and mask.ids.size <= FEW_TOKENS:  # fixed text: most tokens of a call
        row.fill(0)
        _set_bits(row, mask.ids.tolist())
        return
    row[:] = mask.words if isinstance(mask, Bits) else _packed(mask, vocabulary_size)


@lru_cache(maxsize=256)
def _packed(mask: Allow | Forbid, vocabulary_size: int) -> BitmaskRow:
    """Cached: the masks of free phases, marks and tool names are shared and recur at most steps."""
    words = pack(mask.ids, vocabulary_size)
    return words if isinstance(mask, Allow) else ~words


def count(mask: Mask, vocabulary_size: int) -> int:
    """Return the number of tokens that a mask allows."""
    match mask:
        case Allow(ids):
            return int(ids.size)
        case Forbid(ids):
            return vocabulary_size - int(ids.size)
        case Bits(words):
            return int(unpack(words).size)


FEW_WORDS = 16
"""Number of words up to which writing them one by one is faster than copying a row."""


class Row:
    """One mask as a row of a bitmask. Rows with the same bits are one object, compared and hashed
    by identity: whoever has written a row somewhere can tell that the next mask is already there,
    and keep what was made of a row with it."""

    __slots__ = ("__weakref__", "count", "few", "view", "words")

    def __init__(self, data: bytes) -> None:
        self.words: BitmaskRow = np.frombuffer(data, dtype=np.int32)
        """Read-only. One bit for each token id, as in all bitmasks."""
        self.view = memoryview(data).cast("i")
        """The same words. Copying from a memoryview keeps Python's lock, numpy gives it up."""
        self.count = int(np.bitwise_count(self.words.view(np.uint32)).sum())
        """Number of bits that are set."""
        self.few: tuple[tuple[int, int], ...] | None = None
        """The words that are not zero, each with its index, if there are at most FEW_WORDS: in
        fixed text, which is written faster by them. None if there are more."""
        if self.count <= 32 * FEW_WORDS:
            (filled,) = self.words.nonzero()
            if len(filled) <= FEW_WORDS:
                self.few = tuple(zip(filled.tolist(), self.words[filled].tolist(), strict=True))

    def write(self, view: memoryview[int], before: Row | None) -> None:
        """Write the row where `before` is written. In fixed text both have few words, and a copy
        would displace much of the processor's cache."""
        if self.few is None or before is None or before.few is None:
            view[:] = self.view
            return
        for word, _ in before.few:
            view[word] = 0
        for word, bits in self.few:
            view[word] = bits

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
