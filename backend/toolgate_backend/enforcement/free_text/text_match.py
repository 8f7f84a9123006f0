"""Detection of a text in the tokens of free phases.

Used for the texts that begin calls or end the reasoning, and for marks that the model spells in
ordinary tokens, which clients would see in the content.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence


class TextMatch:
    """Matches one literal across `tokens`. All texts are units (tokens/units.py)."""

    def __init__(self, text: bytes, unit_bytes: Sequence[bytes], tokens: Collection[int]) -> None:
        self.text = text
        self._sorted = sorted((unit_bytes[token], token) for token in tokens)
        self._texts = [written for written, _ in self._sorted]
        self.containing = frozenset(token for written, token in self._sorted if text in written)
        """Tokens that contain the whole text."""

    def partial(self, written: bytes) -> bytes:
        """The longest end of `written` with which the text begins; usually empty."""
        text = self.text
        at = written.find(text[:1], max(0, len(written) - len(text) + 1))
        while at >= 0 and not text.startswith(written[at:]):
            at = written.find(text[:1], at + 1)
        return written[at:] if at >= 0 else b""

    def completing(self, partial: bytes) -> frozenset[int]:
        """The tokens that would complete the text after `partial`."""
        found: set[int] = set()
        for done in range(1, min(len(partial) + 1, len(self.text))):
            if partial.endswith(self.text[:done]):
                found.update(self.starting_with(self.text[done:]))
        return frozenset(found)

    def completed(self, partial: bytes, token_units: bytes) -> bytes | None:
        """The bytes after the text if a token with these units completes it after `partial`;
        otherwise None."""
        written = partial + token_units
        at = written.find(self.text)
        return None if at < 0 else written[at + len(self.text) :]

    def starting_with(self, text: bytes) -> list[int]:
        """The tokens whose units begin with `text`."""
        at = bisect_left(self._texts, text)
        found: list[int] = []
        while at < len(self._texts) and self._texts[at].startswith(text):
            found.append(self._sorted[at][1])
            at += 1
        return found
