"""Masks as shared rows of a bitmask.

Rows with the same bits are one object. Whoever has written a row somewhere can therefore tell by
identity that the next mask is already there, and keep what was made of a row with it.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

import numpy as np

from .masks import BitmaskRow


class Row:
    """One mask. Compared and hashed by identity."""

    __slots__ = ("__weakref__", "view", "words")

    def __init__(self, data: bytes) -> None:
        self.words: BitmaskRow = np.frombuffer(data, dtype=np.int32)
        """Read-only. One bit for each token id, as in all bitmasks (masks.py)."""
        self.view = memoryview(data)
        """The same bytes. Copying from a memoryview keeps Python's lock, numpy gives it up."""


class Rows:
    """All rows in use."""

    def __init__(self) -> None:
        self._rows: WeakValueDictionary[bytes, Row] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, words: BitmaskRow) -> Row:
        """Return the row with these bits. `words` is copied."""
        data = words.tobytes()
        return self._rows.setdefault(data, Row(data))
