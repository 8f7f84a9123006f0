"""Detection of marks that are spelled in ordinary tokens.

The dialect's marks are special tokens, which are masked by id. A model can still write the text of
a mark in ordinary tokens, and the client would see that text in the content. SpelledMark finds the
tokens that would complete such a text.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


class SpelledMark:
    """The ways in which the ordinary tokens of a vocabulary can spell one mark."""

    def __init__(self, mark: bytes, token_bytes: Sequence[bytes], special: frozenset[int]) -> None:
        self._mark = mark
        ordinary = ((text, i) for i, text in enumerate(token_bytes) if i not in special)
        self._sorted = sorted(ordinary)
        self._texts = [text for text, _ in self._sorted]
        self.containing = frozenset(i for text, i in self._sorted if mark in text)
        """Tokens whose bytes contain the whole mark."""

    def partial(self, text: bytes) -> bytes:
        """The longest end of `text` with which the mark begins; usually empty."""
        at = text.find(self._mark[:1], max(0, len(text) - len(self._mark) + 1))
        while at >= 0 and not self._mark.startswith(text[at:]):
            at = text.find(self._mark[:1], at + 1)
        return text[at:] if at >= 0 else b""

    def completing(self, partial: bytes) -> frozenset[int]:
        """The tokens that would complete the mark after `partial`."""
        found: set[int] = set()
        for written in range(1, min(len(partial) + 1, len(self._mark))):
            if partial.endswith(self._mark[:written]):
                found.update(self._starting_with(self._mark[written:]))
        return frozenset(found)

    def _starting_with(self, text: bytes) -> list[int]:
        at = bisect_left(self._texts, text)
        found: list[int] = []
        while at < len(self._texts) and self._texts[at].startswith(text):
            found.append(self._sorted[at][1])
            at += 1
        return found
