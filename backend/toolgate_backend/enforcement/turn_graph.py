"""The turns of equal requests as a graph over tokens, which is built while it is used.

A node is a position in a turn: a state of the turn's rules (turn.py), or a position in the graph of
a tool's grammar (grammars/graph/). Its edges are the tokens that have been accepted there before.
The rules are needed only for a token that no sequence has had at its node, and where a budget
decides (automaton.py).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple

from ..grammars.compiled_grammar import MeasuredGrammar
from ..grammars.graph.node import NODE_BYTES, UNSEEN, Node
from ..grammars.graph.token_graph import TokenGraph
from ..grammars.store import GrammarStore
from ..grammars.text_kinds import JSON_KINDS
from ..tokens.masks import Row
from .candidates import Runner
from .model_data import ModelData
from .spec import Spec
from .state import UNLIMITED, Phase, State
from .turn import Turn

MAX_NODES = 20_000
"""Maximum number of nodes of one turn, without those of grammars. Beyond it, the graph begins
anew."""


class TurnNode:
    """A position outside of the grammars' graphs."""

    __slots__ = ("crossings", "forced", "loop", "next", "row", "state", "usual")

    def __init__(self, state: State) -> None:
        self.state = state
        self.next: dict[int, TurnNode] = {}
        """The nodes after tokens that change nothing but the node."""
        self.crossings: dict[int, Placement] = {}
        """The places after tokens with which something begins or ends."""
        self.loop: bytes | None = None
        """Inside free text: not zero for the tokens after which the node is the same."""
        self.row: Row | None = None
        """The mask without limits on tokens, once it was needed."""
        self.usual = self.forced = UNSEEN
        """For drafts, as those of a grammar's node."""

    def cut(self) -> None:
        """Remove all edges."""
        self.next, self.crossings = {}, {}


class Entry:
    """A call, or constrained content, inside the grammar of its only candidate."""

    __slots__ = ("finish", "graph", "state")

    def __init__(self, state: State, graph: TokenGraph) -> None:
        self.state = state
        """The state at the beginning of the grammar's text."""
        self.graph = graph
        self.finish: Placement | None = None
        """The place after the grammar's text."""

    def at(self, node: Node) -> State:
        """Return the state at a position in the grammar."""
        assert self.state.candidates is not None
        return self.state._replace(candidates=self.state.candidates.at_node(node))


def state_of(node: TurnNode | Node, entry: Entry | None) -> State:
    """Return the state at a node. `entry`: that of a grammar's node."""
    if isinstance(node, TurnNode):
        return node.state
    assert entry is not None
    return entry.at(node)


class Placement(NamedTuple):
    """Where a state is in the graph."""

    node: TurnNode | Node
    state: State
    entry: Entry | None = None
    """That of a position in a grammar's graph."""


class TurnGraph:
    """What its methods return depends on nothing but their arguments, so threads may use it at the
    same time: one that has not seen another's node makes an equal one."""

    def __init__(
        self,
        model: ModelData,
        spec: Spec,
        grammars: Sequence[MeasuredGrammar],
        content: MeasuredGrammar | None,
    ) -> None:
        self.turn = Turn(model, spec, grammars, content)
        self._model = model
        self._nodes: dict[State, TurnNode] = {}
        self._entries: dict[State, Entry] = {}
        self._has_history = any(len(word) > 1 for word in spec.bad_words)
        self._plain, self._sample = _plain(model, spec)
        self.root = self.turn.initial_state(UNLIMITED)
        self.bytes = 0
        """Counted in the memory of the grammars' graphs (grammars/graph/node.py)."""

    def __del__(self) -> None:
        """Cut the edges of the nodes, by which they would keep each other and their grammars until
        Python looks for cycles."""
        for node in getattr(self, "_nodes", {}).values():
            node.cut()

    def place(self, state: State) -> Placement:
        only = _inside_grammar(state)
        return Placement(self._node(state), state) if only is None else self._inside(state, only)

    def step(self, node: TurnNode, token: int) -> Placement | None:
        """Return the place after a token without limits on tokens; None if it is not allowed."""
        placement = node.crossings.get(token)
        is_plain = node.loop is not None and node.loop[token]
        if placement is None and (known := node if is_plain else node.next.get(token)) is not None:
            return Placement(known, known.state)
        if placement is None:
            state = self.turn.step(node.state, UNLIMITED, token)
            if state is None:
                return None
            placement = self.place(state)
            if self._is_shared(state):
                _connect(node, token, state, placement)
        return placement

    def finish(self, entry: Entry, node: Node, token: int) -> Placement | None:
        """Return the place after the last token of a grammar if nothing limits the tokens. `node`
        is the one before it."""
        if entry.finish is None:
            state = self.turn.step(entry.at(node), UNLIMITED, token)
            entry.finish = None if state is None else self.place(state)
        return entry.finish

    def row(self, node: TurnNode | Node, entry: Entry | None) -> Row:
        """Return the mask if nothing limits the tokens. `entry`: that of a grammar's node."""
        if isinstance(node, Node):
            assert entry is not None
            return entry.graph.row(node)
        if node.row is None:
            before = len(self._model.rows)
            node.row = self._model.rows.row(self.turn.mask(node.state, UNLIMITED))
            if len(self._model.rows) > before:
                self._count(node.row.view.nbytes)
        return node.row

    def _count(self, size: int) -> None:
        self.bytes += size
        memory = self._model.graphs.memory
        memory.add(size)
        memory.tidy()

    def _node(self, state: State) -> TurnNode:
        node = self._nodes.get(state)
        if node is not None:
            return node
        node = TurnNode(state)
        if self._is_shared(state):
            if len(self._nodes) >= MAX_NODES:
                self._nodes.clear()
                self._entries.clear()
            node = self._nodes.setdefault(state, node)
            self._count(NODE_BYTES)
            self._make_loop(node)
        return node

    def _make_loop(self, node: TurnNode) -> None:
        """Find out whether the node is its own successor after text that begins and ends
        nothing."""
        state = node.state
        if state.phase not in (Phase.THINKING, Phase.CONTENT) or state.forced or state.ended:
            return
        if state.candidates is not None or state.partial_trigger or state.partial_mark:
            return
        if self._sample is None or (self._model.texts.begins_with_name and state.at_start):
            return
        if self.turn.step(state, UNLIMITED, self._sample) == state:
            node.loop = self._plain

    def _inside(self, state: State, only: Runner) -> Placement:
        candidates = state.candidates
        assert candidates is not None
        graph = candidates.of.graph(only.number)
        key = state._replace(candidates=candidates.at_node(graph.root))
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries.setdefault(key, Entry(key, graph))
        return Placement(only.node, state, entry)

    def _is_shared(self, state: State) -> bool:
        """Return whether other sequences come to this state: not if its history is its own."""
        if self._has_history and state.phase in (Phase.THINKING, Phase.CONTENT):
            return False
        candidates = state.candidates
        return candidates is None or not any(each.node.private for each in candidates.running)


def crosses(before: State, after: State) -> bool:
    """Return whether something begins or ends between two states."""
    if before.phase is not after.phase or bool(before.forced) != bool(after.forced):
        return True
    begins = after.candidates is not None and not after.candidates.touched
    return before.ended != after.ended or begins


def _connect(node: TurnNode, token: int, state: State, placed: Placement) -> None:
    if isinstance(placed.node, TurnNode) and not crosses(node.state, state):
        node.next[token] = placed.node
    else:
        node.crossings[token] = placed


def _inside_grammar(state: State) -> Runner | None:
    """Return the position in the grammar whose graph decides alone. Where constrained content may
    end and may also go on, the state decides."""
    candidates = state.candidates
    if candidates is None or state.forced or state.ended:
        return None
    if state.phase not in (Phase.TOOL_CALL, Phase.FORMAT):
        return None
    only = candidates.only
    if only is None or only.node.finished:
        return None
    has_end = candidates.of.candidates[only.number].grammar.limits is not None
    return only if state.phase is Phase.TOOL_CALL or has_end else None


def _plain(model: ModelData, spec: Spec) -> tuple[bytes, int | None]:
    """Return the tokens of free text that begin and end nothing in this turn, by token, and one of
    them; None if there is none."""
    plain = bytearray(model.plain)
    for token in (*spec.stop_ids, *(word[-1] for word in spec.bad_words)):
        if 0 <= token < len(plain):
            plain[token] = 0
    sample = plain.find(1)
    return bytes(plain), None if sample < 0 else sample


MAX_TURNS = 256
"""Maximum number of graphs: of different requests, of which the least recently used is dropped."""


class _Key(NamedTuple):
    """What distinguishes turns."""

    constraints: tuple[object, ...]
    grammars: tuple[MeasuredGrammar, ...]
    content: MeasuredGrammar | None


class TurnGraphs:
    """The graphs of the requests to one model. They begin anew with those of the grammars, of which
    they have nodes."""

    def __init__(self, model: ModelData) -> None:
        self.model = model
        self._graphs: OrderedDict[_Key, TurnGraph] = OrderedDict()
        self._generation = 0
        self._lock = Lock()

    def follow(self, store: GrammarStore) -> None:
        """Make the graphs of a store's grammars when they are loaded, before a step needs them, as
        the tables of JSON, and forget released ones."""
        for kind in JSON_KINDS:
            self.model.graphs.shared.table(kind)
        store.on_load = self.model.graphs.graph_of
        store.on_release = self.forget

    def __len__(self) -> int:
        return len(self._graphs)

    def has(
        self, spec: Spec, grammars: Sequence[MeasuredGrammar], content: MeasuredGrammar | None
    ) -> bool:
        """Return whether `graph` would find the graph."""
        is_new = self.model.graphs.memory.generation != self._generation
        return not is_new and self._key(spec, grammars, content) in self._graphs

    def graph(
        self, spec: Spec, grammars: Sequence[MeasuredGrammar], content: MeasuredGrammar | None
    ) -> TurnGraph:
        """Return the graph that the sequences of equal requests share."""
        key = self._key(spec, grammars, content)
        generation = self.model.graphs.memory.generation
        with self._lock:
            if generation != self._generation:
                self._graphs.clear()
                self._generation = generation
            cached = self._graphs.get(key)
            if cached is not None:
                self._graphs.move_to_end(key)
                return cached
        graph = TurnGraph(self.model, spec, grammars, content)
        with self._lock:
            self._graphs[key] = graph
            while len(self._graphs) > MAX_TURNS:
                _, dropped = self._graphs.popitem(last=False)
                self.model.graphs.memory.add(-dropped.bytes)
        return graph

    def _key(
        self, spec: Spec, grammars: Sequence[MeasuredGrammar], content: MeasuredGrammar | None
    ) -> _Key:
        return _Key(_constraints(self.model, spec), tuple(grammars), content)

    def forget(self, grammar: MeasuredGrammar) -> None:
        """Drop the graphs of turns with a grammar that is no longer loaded."""
        with self._lock:
            for key in [*self._graphs]:
                if grammar is key.content or grammar in key.grammars:
                    self.model.graphs.memory.add(-self._graphs.pop(key).bytes)


def _constraints(model: ModelData, spec: Spec) -> tuple[object, ...]:
    """Return what distinguishes turns with the same grammars."""
    ids = (spec.earlier_calls, spec.id_seed, spec.choice_number) if model.form.has_ids else ()
    return (
        spec.choice,
        spec.max_calls,
        spec.reasoning,
        spec.skip_reasoning,
        spec.ignore_end,
        spec.stop_ids,
        spec.bad_words,
        ids,
    )
