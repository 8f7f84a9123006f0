"""What the token graphs of a process share: tokens, rows, tables and memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import RLock
from weakref import WeakKeyDictionary

from ...tokens.masks import BitmaskRow
from ...tokens.rows import Rows
from ...tokens.token_index import TokenIndex
from ..compiled_grammar import MeasuredGrammar
from ..engines.engine import CompiledGrammar
from .memory import GraphMemory
from .plain_table import PlainTable
from .text_kinds import JSON_IN_LLGUIDANCE, JSON_IN_XGRAMMAR, TextKind
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
        self._lock = RLock()

    def graph_of(self, grammar: MeasuredGrammar) -> TokenGraph:
        """The graph of a grammar, in the generation of now."""
        graph = self._graphs.get(grammar.compiled)
        if graph is None:
            with self._lock:
                graph = self._graphs.get(grammar.compiled)
                if graph is None:
                    graph = self._graphs[grammar.compiled] = TokenGraph(grammar, self)
        graph.renew()
        return graph

    def prepare(self, grammars: Iterable[MeasuredGrammar]) -> None:
        """Make the tables that graphs of these grammars need, before a step needs them."""
        for kind in {kind for each in grammars for kind in each.compiled.free.strings}:
            self.table(kind)

    def prepare_json(self) -> None:
        """As `prepare`, for grammars of JSON."""
        for kind in (JSON_IN_XGRAMMAR, JSON_IN_LLGUIDANCE):
            self.table(kind)

    def table(self, kind: TextKind) -> PlainTable:
        """The tokens that go on with a kind of string. The first time, this takes a second."""
        with self._lock:
            if kind not in self._tables:
                self._tables[kind] = PlainTable(kind, self.unit_bytes, self.allowed)
            return self._tables[kind]

    def _begin_anew(self) -> None:
        with self._lock:
            graphs = [*self._graphs.values()]
        for graph in graphs:
            graph.renew(wait=False)
