"""What the token graphs of a process share: tokens, rows, tables and memory."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from weakref import WeakKeyDictionary

from ...tokens.masks import BitmaskRow, Rows
from ...tokens.units import TokenIndex
from ..compiled_grammar import MeasuredGrammar
from ..engines.engine import CompiledGrammar
from ..text_kinds import JSON_IN_LLGUIDANCE, JSON_IN_XGRAMMAR, PlainTable, TextKind
from .node import GraphMemory
from .token_graph import TokenGraph
from .value_bounds import ValueBounds

WIDE = 4096
"""Number of tokens from which on a mask of unknown text is not worth a node: what sequences write
there hardly ever returns."""


class TokenGraphs:
    """The graphs of the loaded grammars. A graph goes with its grammar."""

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
        self.memory = GraphMemory(max_bytes, self._begin_anew)
        self._tables: dict[TextKind, PlainTable] = {}
        self._graphs: WeakKeyDictionary[CompiledGrammar, TokenGraph] = WeakKeyDictionary()
        self._lock = Lock()
        self._making = Lock()
        """Held while a table is made, for which no look-up waits."""

    def graph_of(self, grammar: MeasuredGrammar) -> TokenGraph:
        """Return the graph of a grammar, in the generation of now."""
        graph = self._graphs.get(grammar.compiled)
        if graph is None:
            made = TokenGraph(grammar, self)
            with self._lock:
                graph = self._graphs.setdefault(grammar.compiled, made)
        graph.renew()
        return graph

    def prepare(self, grammar: MeasuredGrammar) -> None:
        """Make the tables that the graph of a grammar needs, before a step needs them."""
        for kind in grammar.compiled.free.strings:
            self.table(kind)

    def prepare_json(self) -> None:
        """As `prepare`, for grammars of JSON."""
        for kind in (JSON_IN_XGRAMMAR, JSON_IN_LLGUIDANCE):
            self.table(kind)

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

    def _begin_anew(self) -> None:
        with self._lock:
            graphs = [*self._graphs.values()]
        for graph in graphs:
            graph.renew(wait=False)
