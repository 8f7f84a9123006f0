"""What may come next, in the form that is cheapest to apply."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ..grammars.engines.engine import Words, words_for

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Forbid:
    """Everything but `ids`. The free phases share a handful of these."""

    ids: Ids


@dataclass(frozen=True, eq=False)
class Allow:
    """Nothing but `ids`."""

    ids: Ids


@dataclass(frozen=True, eq=False)
class Bits:
    """One row of a bitmask."""

    words: Words


Mask = Forbid | Allow | Bits


def ids(tokens: object) -> Ids:
    return np.array(sorted(set(tokens)), dtype=np.int64)  # type: ignore[call-overload]


@lru_cache(maxsize=256)
def only(token: int) -> Allow:
    """Shared: what is forced is mostly a mark."""
    return Allow(ids([token]))


def pack(tokens: Ids, vocabulary_size: int) -> Words:
    """A row with the bits of `tokens` set."""
    words = np.zeros(words_for(vocabulary_size), dtype=np.uint32)
    np.bitwise_or.at(words, tokens >> 5, np.uint32(1) << (tokens & 31).astype(np.uint32))
    return words.view(np.int32)


def beside(mask: Allow | Bits, tokens: Iterable[int]) -> Allow | Bits:
    """What `mask` allows, and `tokens` too."""
    if isinstance(mask, Allow):
        return Allow(np.union1d(mask.ids, ids(tokens)))
    row = mask.words.copy()
    for token in tokens:
        row.view(np.uint32)[token >> 5] |= np.uint32(1 << (token & 31))
    return Bits(row)


def unpack(words: Words) -> Ids:
    """The tokens of a row. Looks only at the words that hold any: most grammars allow few."""
    (filled,) = words.nonzero()
    bits = np.unpackbits(words[filled].view(np.uint8), bitorder="little").reshape(-1, 32)
    row, column = bits.nonzero()
    return filled[row] * 32 + column


def render(mask: Mask, row: Words, vocabulary_size: int) -> None:
    """Write `mask` into a row of a bitmask, for hosts that take nothing else."""
    row[:] = mask.words if isinstance(mask, Bits) else _packed(mask, vocabulary_size)


@lru_cache(maxsize=256)
def _packed(mask: Allow | Forbid, vocabulary_size: int) -> Words:
    """The rows of free phases, marks and names: shared, and asked for at nearly every step."""
    words = pack(mask.ids, vocabulary_size)
    return words if isinstance(mask, Allow) else ~words
