"""What the token graphs of a process share: tokens, rows, tables and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from threading import Lock

from ...tokens.masks import BitmaskRow, Rows
from ...tokens.units import TokenIndex
from ..text_kinds import PlainTable, TextKind
from .node import GraphMemory
from .value_bounds import ValueBounds


@dataclass(eq=False)
class Shared:
    unit_bytes: Sequence[bytes]
    token_index: TokenIndex
    allowed: BitmaskRow
    """The tokens that the text of a grammar may have."""
    refused: frozenset[int]
    """All special ones that it can't have."""
    rows: Rows
    bounds: ValueBounds
    max_bytes: InitVar[int]
    wide: int = 4096
    """Number of tokens from which on a mask of unknown text is not worth a node: what sequences
    write there hardly ever returns."""
    _tables: dict[TextKind, PlainTable] = field(default_factory=dict)
    _making: Lock = field(default_factory=Lock)
    """Held while a table is made, for which no look-up waits."""

    def __post_init__(self, max_bytes: int) -> None:
        self.memory = GraphMemory(max_bytes)

    def table(self, kind: TextKind) -> PlainTable:
        """Return the tokens that go on with a kind of string. The first time, this takes a
        second."""
        if kind not in self._tables:
            with self._making:
                if kind not in self._tables:
                    self._tables[kind] = PlainTable(kind, self.unit_bytes, self.allowed)
        return self._tables[kind]
