"""The members that may come next: those whose text begins with a token that a mask allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...tokens.masks import BitmaskRow, TokenIds
from ...tokens.token_index import TokenIndex


class Beginnings:
    """The texts of members, with all tokens with which they can begin. A schema can have hundreds,
    and a mask rules out nearly all of them at once."""

    def __init__(self, members: Sequence[tuple[str, bytes]], index: TokenIndex) -> None:
        """`members`: pairs of a name and a text with which a member of this name begins."""
        self._members = members
        first = [index.prefixes_of(text) for _, text in members]
        self._tokens: TokenIds = np.array([t for each in first for t in each], dtype=np.int64)
        self._owners = np.repeat(np.arange(len(first)), [len(each) for each in first])

    def allowed(self, row: BitmaskRow) -> Iterator[tuple[str, bytes]]:
        """The members that can begin with a token of the mask `row`, in their order."""
        bits = row[self._tokens >> 5] >> (self._tokens & 31) & 1
        for at in np.unique(self._owners[bits.nonzero()]):
            yield self._members[at]
