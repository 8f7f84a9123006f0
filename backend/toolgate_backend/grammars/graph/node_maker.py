"""Makes the nodes of one graph and their masks, with the engine's matchers."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import InitVar, dataclass, field
from itertools import takewhile
from threading import Lock

import numpy as np

from toolgate_core.schema.string_languages import StringLanguages

from ...errors import BackendError, NoTokenAllowed
from ...tokens.masks import BitmaskRow, Row, Rows, pack
from ...tokens.units import TokenIndex
from ..compiled_grammar import MeasuredGrammar
from ..engines.engine import Matcher
from ..text_kinds import PlainTable, TextKind
from .node import (
    EDGE_BYTES,
    NODE_BYTES,
    NOTHING,
    CountedEdges,
    GraphMemory,
    Node,
    PrivateText,
    StringPosition,
)
from .value_bounds import ValueBounds, narrowed
from .value_places import Place, mark_of, value_of


@dataclass(eq=False)
class GraphContext:
    """What the token graphs of a process share: tokens, rows, tables and memory."""

    unit_bytes: Sequence[bytes]
    token_index: TokenIndex
    allowed: BitmaskRow
    """The tokens that the text of a grammar may have."""
    refused: frozenset[int]
    """All special ones that it cannot have."""
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


class NodeMaker:
    """Not thread-safe."""

    def __init__(self, grammar: MeasuredGrammar, shared: GraphContext) -> None:
        self._shared = shared
        compiled = grammar.compiled
        self._tables = {kind.quote: shared.table(kind) for kind in compiled.free.strings}
        """The kinds of strings, by their marks."""
        listed = compiled.free.known.listed.union(shared.bounds.literals(grammar.name))
        self._languages = StringLanguages(compiled.free.known.constraints, listed)
        self._bounds = shared.bounds.of(grammar)
        self._scouts = Scouts(compiled.matcher)
        first = compiled.matcher()
        self._is_empty, self._may_be_empty = first.finished, first.complete
        self.generation = -1
        """The generation of the graph. Nodes of others are no part of it any more."""
        self.bytes = 0
        """The bytes of this generation."""

    def new_root(self) -> Node:
        """Return the first node of a new generation."""
        self._scouts.clear()
        self.generation, self.bytes = self._shared.memory.generation, 0
        root = Node(None, -1, self.generation)
        root.finished, root.complete = self._is_empty, self._may_be_empty
        root.place = self._bounds.begin if self._bounds else None
        return root

    def is_outside(self, node: Node) -> bool:
        """Return whether a node is no part of the graph, or no more."""
        return node.private is not None or node.generation != self.generation

    def joined(self, node: Node, token: int, target: Node, row: Row) -> Node | None:
        """Return an edge to a known node, if the token is accepted."""
        if not row.allows(token):
            matcher = self._scouts.take(node)
            if not matcher.accept(token):
                self._leave(node, matcher)
                return None
        self._connect(node, token, target)
        return target

    def _connect(self, node: Node, token: int, after: Node) -> None:
        if self.is_outside(node):
            return
        if after.finished:
            node.ends = {} if node.ends is NOTHING else node.ends
            node.ends[token] = after
        else:
            node.next = {} if node.next is NOTHING else node.next
            node.next[token] = after
        self._count(EDGE_BYTES)

    def made(self, node: Node, token: int, *, private: bool = False) -> Node | None:
        """Return a new node after a token; None if the engine refuses it."""
        matcher = self._accepting(node, token)
        if matcher is None:
            return None
        after = Node(None if private else node, token, node.generation)
        after.finished, after.complete = matcher.finished, matcher.complete
        if self._bounds is not None and node.place is not None:
            after.place = self._bounds.after(node.place, self._shared.unit_bytes[token])
        if not private:
            self._scouts.put(after, matcher)
            self._connect(node, token, after)
            self._count(NODE_BYTES)
            return after
        text = node.private
        if text is None:
            text = PrivateText(node, array("i"), matcher)
        else:
            node.row = None
        text.tokens.append(token)
        after.private, after.depth = text, len(text.tokens)
        return after

    def _accepting(self, node: Node, token: int) -> Matcher | None:
        """Return a matcher after a token; None if the token is refused. Raise BackendError."""
        matcher = self._scouts.take(node)
        if matcher.accept(token):
            return matcher
        with suppress(BackendError):
            matcher.check()
            self._leave(node, matcher)
            return None
        # A limit of the engine, which perhaps another text has exceeded.
        self._forget_matchers(node)
        matcher = self._scouts.take(node)
        if matcher.accept(token):
            return matcher
        matcher.check()
        self._leave(node, matcher)
        return None

    def _count(self, count: int) -> None:
        self.bytes += count
        self._shared.memory.add(count)

    def row(self, node: Node) -> Row:
        if node.row is not None:
            return node.row
        shared = self._shared
        words = np.zeros_like(shared.allowed)
        if not node.finished:
            try:
                self._fill(node, words)
            except NoTokenAllowed:
                raise
            except BackendError:  # a limit of the engine, which perhaps another text has exceeded
                self._forget_matchers(node)
                self._fill(node, words)
        if self._bounds is not None and node.place is not None:
            words = narrowed(words, self._bounds.refused(node.place))
        before = len(shared.rows)
        node.row = shared.rows.row(words)
        if len(shared.rows) > before and node.private is None:
            self._count(words.nbytes)
        return node.row

    def _fill(self, node: Node, words: BitmaskRow) -> None:
        """Write the engine's mask of the tokens that a grammar may allow. Raise BackendError."""
        shared = self._shared
        matcher = self._scouts.take(node)
        matcher.fill(words)
        words &= shared.allowed
        if not words.any():
            # Where forced text is spelled like a special token, llguidance allows that token only.
            tokens = shared.token_index.prefixes_of(matcher.forced())
            if not tokens:
                raise NoTokenAllowed(
                    "The grammar allows no token at this position. This is a bug of the grammar "
                    "engine or of Toolgate; please report it with the tool's schema."
                )
            words[:] = pack(tokens, len(words) * 32)
        self._leave(node, matcher)

    def _forget_matchers(self, node: Node) -> None:
        """Matchers of a grammar share what has exceeded a limit, so new ones are made."""
        self._scouts.clear()
        if node.private is not None:
            node.private.matcher = None

    def forced(self, node: Node) -> bytes:
        matcher = self._scouts.take(node)
        text = matcher.forced()
        self._leave(node, matcher)
        return text

    # --- strings ---

    def opening(self, place: Place | None, text: bytes) -> tuple[int, PlainTable] | None:
        """Return where the string begins in which a text ends, and its kind; None if it does not
        end in a string that began in it. `place` is the one before the text."""
        bounds, begin = self._bounds, None
        if bounds is None or place is None or not self._tables:
            return None
        mark = mark_of(bounds.after(place, text))
        if mark is None or mark not in self._tables:
            return None
        is_outside = mark_of(place) is None
        for at in range(len(text)):
            place = bounds.after(place, text[at : at + 1])
            if is_outside and mark_of(place) is not None:
                begin = at + 1
            is_outside = mark_of(place) is None
        return None if begin is None else (begin, self._tables[mark])

    def begin_string(self, node: Node) -> None:
        """Find out the language of the string that begins at a node."""
        table, matcher = node.opens, self._scouts.fresh(node)
        assert table is not None
        node.opens = None

        def may_begin(text: str) -> bool:
            tokens = self._shared.token_index.cover(text.encode()) or [-1]
            accepted = len([*takewhile(matcher.accept, tokens)])
            matcher.check()
            if accepted:
                matcher.rollback(accepted)
            return accepted == len(tokens)

        with suppress(BackendError):  # a limit of the engine: then nothing is known
            language = self._languages.of(may_begin)
            if language is not None:
                self.set_position(node, StringPosition(node, table, language, language.begin))

    def set_position(self, node: Node, position: StringPosition) -> None:
        """Note where a node is, so that it is found again."""
        anchor, counted = position.anchor, position.counted
        anchor.texts = {} if anchor.texts is None else anchor.texts
        anchor.texts[position.key] = node
        node.position = position
        table = position.table
        if counted is None or not table.goes_on(self.row(node).words, counted.room(table.longest)):
            return
        if not counted.kind:
            node.loop = table.counts
            return
        if counted.is_far(table.longest):
            anchor.texts.setdefault(counted.kind, node)
        before = node.parent
        is_same = before and before.position and before.position.anchor is anchor
        known = before.next if before and is_same else None
        nodes = known.nodes if isinstance(known, CountedEdges) else {}
        node.next = CountedEdges(table.counts, counted, nodes)

    def like(self, node: Node, token: int, model: Node) -> Node:
        """Return a new node after an allowed token whose mask is that of another one."""
        after = Node(node, token, node.generation)
        after.place, after.row = model.place, self.row(model)
        self._connect(node, token, after)
        self._count(NODE_BYTES)
        return after

    def is_unknown_text(self, node: Node, row: Row) -> bool:
        """Return whether a mask is that of text about which nothing is known."""
        if node.place is not None:
            place = value_of(node.place)
            if place is not None and not place.quote:
                return False
        return row.count > self._shared.wide

    def _leave(self, node: Node, matcher: Matcher) -> None:
        """Put back a matcher that is still at a node."""
        if not self.is_outside(node):
            self._scouts.put(node, matcher)


MAX_SCOUTS = 64
"""Maximum number of matchers of one graph."""


class Scouts:
    """The engine's matchers of a graph: those at its nodes, and those of texts that have left it.
    Not thread-safe.

    A matcher is needed only where no sequence has been: to make a node or a mask. That of the
    nearest node before it is moved there. Where many tokens may follow and no state is known to
    return, a graph would grow by whatever is written. There a sequence leaves it, and each token
    costs a step of the engine."""

    def __init__(self, make: Callable[[], Matcher]) -> None:
        self._make = make
        self._matchers: OrderedDict[Node, Matcher] = OrderedDict()

    def take(self, node: Node) -> Matcher:
        """Return a matcher at a node. Unless the node is private, `put` puts it back, at this node
        or at another one. Raise BackendError."""
        if node.private is not None:
            return self._of_text(node, node.private)
        return self._moved(self._matchers, node)

    def put(self, node: Node, matcher: Matcher) -> None:
        """Add a matcher that is at a node."""
        self._matchers[node] = matcher
        self._matchers.move_to_end(node)
        if len(self._matchers) > MAX_SCOUTS:
            self._matchers.popitem(last=False)

    def clear(self) -> None:
        self._matchers.clear()

    def _of_text(self, node: Node, text: PrivateText) -> Matcher:
        """Return the matcher of a private text, which ends at the node."""
        undone = len(text.tokens) - node.depth
        if undone:
            matcher, text.matcher = text.matcher, None
            text = node.private = PrivateText(text.base, text.tokens[: node.depth], matcher)
            if matcher is not None:
                matcher.rollback(undone)
        if text.matcher is None:
            text.matcher = advanced(self.fresh(text.base), text.tokens)
        return text.matcher

    def fresh(self, node: Node) -> Matcher:
        """Return a new matcher at a node, whose own one stays there. Raise BackendError."""
        return self._moved({}, node)

    def _moved(self, matchers: dict[Node, Matcher], node: Node) -> Matcher:
        """Return the nearest one of these matchers before a node, or a new one, at the node."""
        path: list[int] = []
        while node.parent is not None and node not in matchers:
            path.append(node.token)
            node = node.parent
        matcher = matchers.pop(node, None) or self._make()
        return advanced(matcher, reversed(path))


def advanced(matcher: Matcher, tokens: Iterable[int]) -> Matcher:
    """Return a matcher after some more tokens of a known text. Raise BackendError."""
    for token in tokens:
        if not matcher.accept(token):
            matcher.check()
            raise BackendError("The tokens of a known text could not be read again.")
    return matcher
