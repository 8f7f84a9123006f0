"""How calls begin: the text up to a tool's first free argument, the same in every call of it.

While only these texts tell the candidates apart, what may come next is a look-up among the tokens
that spell them; no matcher is made or asked. With 300 tools that takes a step from two milliseconds
to microseconds. All ways to spell the text are open, as in xgrammar's masks; llguidance's would
leave one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from . import masks

POSITIONS = 4096
"""Places in the heads of one set of tools that are remembered."""


class TokenTexts:
    """The ordinary tokens of a vocabulary, by what they write."""

    def __init__(self, token_bytes: Sequence[bytes], special: frozenset[int]) -> None:
        self._ids: dict[bytes, list[int]] = {}
        for token, text in enumerate(token_bytes):
            if token not in special:
                self._ids.setdefault(text, []).append(token)
        self._sorted = sorted(self._ids)
        self._longest = max(map(len, self._sorted), default=0)

    def beginning(self, text: bytes) -> list[int]:
        """The tokens with which `text` can begin."""
        found: list[int] = []
        for length in range(1, min(len(text), self._longest) + 1):
            found += self._ids.get(text[:length], ())
        return found

    def beyond(self, text: bytes) -> bool:
        """Whether some token writes all of `text` and more."""
        after = bisect_right(self._sorted, text)
        return after < len(self._sorted) and self._sorted[after].startswith(text)


@dataclass(frozen=True)
class Position:
    """A place before which every candidate that is left is still in its head."""

    candidates: tuple[int, ...]
    """By their number in the set."""
    allow: masks.Allow
    tokens: frozenset[int]
    """The same as `allow`."""
    forced: bytes
    """What comes next in every one of them."""


class CallPrefixes:
    """Of one set of candidates; shared by all sequences that offer it."""

    def __init__(self, heads: Sequence[bytes], texts: TokenTexts) -> None:
        self._heads = heads
        self._texts = texts
        self._positions: dict[bytes, Position | None] = {}

    def at(self, written: bytes) -> Position | None:
        """None where a token could go beyond a head: from there on, matchers decide."""
        try:
            return self._positions[written]
        except KeyError:  # as it may be in two threads at once: the step's and the pool's
            position = self._position(written)
        if len(self._positions) >= POSITIONS:
            self._positions.clear()
        self._positions[written] = position
        return position

    def _position(self, written: bytes) -> Position | None:
        left = {
            at: head[len(written) :]
            for at, head in enumerate(self._heads)
            if head.startswith(written)
        }
        rests = set(left.values())
        if not rests or any(self._texts.beyond(rest) for rest in rests):
            return None
        tokens = {token for rest in rests for token in self._texts.beginning(rest)}
        return Position(
            candidates=tuple(left),
            allow=masks.Allow(masks.ids(tokens)),
            tokens=frozenset(tokens),
            forced=shared_beginning(rests),
        )


def shared_beginning(texts: set[bytes]) -> bytes:
    """What all of them begin with. There is at least one."""
    low, high = min(texts), max(texts)  # what these two share, all share
    pairs = enumerate(zip(low, high, strict=False))
    return low[: next((at for at, (a, b) in pairs if a != b), len(low))]
