"""The tokens that go on with a kind of free string."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...tokens.masks import BitmaskRow
from .text_kinds import JSON_KINDS, TextKind


class PlainTable:
    def __init__(self, kind: TextKind, token_bytes: Sequence[bytes], allowed: BitmaskRow) -> None:
        """`allowed`: the tokens that the text of a grammar may have. Reads the whole vocabulary."""
        self.kind = kind
        self.sample = -1
        """One of these tokens, of one letter."""
        ends = np.zeros(len(allowed) * 32, dtype=np.uint8)
        may = np.unpackbits(allowed.view(np.uint8), bitorder="little")
        plain = np.zeros(len(may), dtype=np.uint8)
        for token in np.flatnonzero(may[: len(token_bytes)]).tolist():
            text = token_bytes[token]
            plain[token] = bool(text) and kind.begun(text) == b""
            ends[token] = text.startswith(kind.quote)
            if plain[token] and len(text) == 1 and text.isalpha():
                self.sample = token
        self.loop = plain.tobytes()
        """One byte for each token id."""
        self.words: BitmaskRow = np.packbits(plain, bitorder="little").view(np.int32)
        self._ends: BitmaskRow = np.packbits(ends, bitorder="little").view(np.int32)

    def may_end(self, row: BitmaskRow) -> bool:
        """Whether a mask allows the end of the string. Only those of JSON may have to go on."""
        return self.kind not in JSON_KINDS or bool((row & self._ends).any())

    def is_inside(self, row: BitmaskRow) -> bool:
        """Whether a mask allows all of these tokens."""
        return bool((row & self.words == self.words).all())
