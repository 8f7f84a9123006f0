"""A fixed text of a dialect, which may have marks, token by token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...tokens import masks
from ...tokens.masks import TokenIds
from ...tokens.units import ESCAPE, mark_unit


@dataclass(frozen=True, eq=False)
class FixedText:
    """A position is a number of bytes of `units`."""

    units: bytes
    texts: Sequence[bytes]
    """The bytes of each token; empty for special tokens."""
    ids: Mapping[bytes, int]
    """By bytes: a token that has them."""
    _allowed: dict[int, TokenIds] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.units)

    @property
    def plain(self) -> bytes:
        """The text up to its first mark."""
        return self.units.partition(ESCAPE)[0]

    def allowed(self, at: int) -> TokenIds:
        """The tokens with which the text can go on."""
        if at not in self._allowed:
            rest = self.units[at:]
            if rest.startswith(ESCAPE):
                found = [int(rest[2 : rest.index(b"]")])]
            else:
                rest = rest.partition(ESCAPE)[0]
                starts = (rest[:n] for n in range(1, len(rest) + 1))
                found = [self.ids[start] for start in starts if start in self.ids]
            self._allowed[at] = masks.token_ids(found)
        return self._allowed[at]

    def after(self, at: int, token: int) -> int | None:
        """The position after a token; None if it does not belong here."""
        text = self.texts[token] if token < len(self.texts) else b""
        unit = text or mark_unit(token)
        return at + len(unit) if self.units.startswith(unit, at) else None
