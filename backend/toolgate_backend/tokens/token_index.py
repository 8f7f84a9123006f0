"""Index of a vocabulary's ordinary tokens by their bytes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence


class TokenIndex:
    """The ordinary tokens of a vocabulary, indexed by their bytes."""

    def __init__(self, token_bytes: Sequence[bytes], special: frozenset[int]) -> None:
        self._ids: dict[bytes, list[int]] = {}
        for token, text in enumerate(token_bytes):
            if token not in special:
                self._ids.setdefault(text, []).append(token)
        self._sorted = sorted(self._ids)
        self._longest = max(map(len, self._sorted), default=0)

    def prefixes_of(self, text: bytes) -> list[int]:
        """The tokens whose bytes are a prefix of `text`."""
        found: list[int] = []
        for length in range(1, min(len(text), self._longest) + 1):
            found += self._ids.get(text[:length], ())
        return found

    def has_extension(self, text: bytes) -> bool:
        """Whether the bytes of some token begin with `text` and are longer."""
        after = bisect_right(self._sorted, text)
        return after < len(self._sorted) and self._sorted[after].startswith(text)
