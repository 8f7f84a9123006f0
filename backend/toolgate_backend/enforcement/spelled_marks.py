"""Marks spelt out in ordinary tokens.

The dialect's marks are special tokens, masked by id. A model may still spell the text of one with
ordinary tokens, and a client would see a mark in the content. This finds the tokens that would
complete such a text.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


class SpelledMark:
    """The ways in which a vocabulary can spell one mark."""

    def __init__(self, mark: bytes, token_bytes: Sequence[bytes], special: frozenset[int]) -> None:
        self._mark = mark
        ordinary = ((text, i) for i, text in enumerate(token_bytes) if i not in special)
        self._sorted = sorted(ordinary)
        self._texts = [text for text, _ in self._sorted]
        self.whole = frozenset(i for text, i in self._sorted if mark in text)
        """Tokens that hold the whole mark by themselves."""

    def tail(self, text: bytes) -> bytes:
        """As much of the end of `text` as has begun to spell the mark: mostly nothing."""
        at = text.find(self._mark[:1], max(0, len(text) - len(self._mark) + 1))
        while at >= 0 and not self._mark.startswith(text[at:]):
            at = text.find(self._mark[:1], at + 1)
        return text[at:] if at >= 0 else b""

    def completing(self, tail: bytes) -> frozenset[int]:
        """The tokens that would complete the mark after `tail`."""
        found: set[int] = set()
        for written in range(1, min(len(tail) + 1, len(self._mark))):
            if tail.endswith(self._mark[:written]):
                found.update(self._beginning_with(self._mark[written:]))
        return frozenset(found)

    def _beginning_with(self, text: bytes) -> list[int]:
        at = bisect_left(self._texts, text)
        found: list[int] = []
        while at < len(self._texts) and self._texts[at].startswith(text):
            found.append(self._sorted[at][1])
            at += 1
        return found
