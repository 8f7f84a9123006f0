"""What the token graphs of a process share: tokens, rows, tables and memory."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from ...tokens.masks import BitmaskRow, Rows
from ...tokens.units import TokenIndex
from ..text_kinds import PlainTable, TextKind
from .node import GraphMemory
from .value_bounds import ValueBounds

WIDE = 4096
"""Number of tokens from which on a mask of unknown text is not worth a node: what sequences write
there hardly ever returns."""


class Shared:
    def __init__(
        self,
        *,
        unit_bytes: Sequence[bytes],
        token_index: TokenIndex,
        allowed: BitmaskRow,
        refused: frozenset[int],
        rows: Rows,
        bounds: ValueBounds,
        max_bytes: int,
        wide: int = WIDE,
    ) -> None:
        """`allowed`: the tokens that the text of a grammar may have; `refused`: all special ones
        that it can't have."""
        self.unit_bytes = unit_bytes
        self.token_index = token_index
        self.allowed = allowed
        self.refused = refused
        self.rows = rows
        self.bounds = bounds
        self.wide = wide
        self.memory = GraphMemory(max_bytes)
        self._tables: dict[TextKind, PlainTable] = {}
        self._making = Lock()
        """Held while a table is made, for which no look-up waits."""

    def table(self, kind: TextKind) -> PlainTable:
        """Return the tokens that go on with a kind of string. The first time, this takes a
        second."""
        table = self._tables.get(kind)
        if table is None:
            with self._making:
                table = self._tables.get(kind)
                if table is None:
                    table = self._tables[kind] = PlainTable(kind, self.unit_bytes, self.allowed)
        return table
