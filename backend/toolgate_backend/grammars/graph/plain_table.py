"""The tokens that go on with a kind of free string."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...tokens.masks import BitmaskRow
from .text_kinds import TextKind


class PlainTable:
    def __init__(self, kind: TextKind, token_bytes: Sequence[bytes], allowed: BitmaskRow) -> None:
        """`allowed`: the tokens that the text of a grammar may have. Reads the whole vocabulary."""
        self.kind = kind
        may = np.unpackbits(allowed.view(np.uint8), bitorder="little")
        plain = np.zeros(len(may), dtype=np.uint8)
        for token in np.flatnonzero(may[: len(token_bytes)]).tolist():
            text = token_bytes[token]
            plain[token] = bool(text) and kind.begun(text) == b""
        self.loop = plain.tobytes()
        """One byte for each token id."""
        self.words: BitmaskRow = np.packbits(plain, bitorder="little").view(np.int32)

    def is_inside(self, row: BitmaskRow) -> bool:
        """Whether a mask allows all of these tokens."""
        return bool((row & self.words == self.words).all())
