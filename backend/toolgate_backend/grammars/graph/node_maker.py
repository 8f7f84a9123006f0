"""Makes the nodes of one graph and their masks, with the engine's matchers."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from ...errors import BackendError, NoTokenAllowed
from ...tokens.masks import BitmaskRow, Row, pack, token_ids
from ..compiled_grammar import MeasuredGrammar
from ..engines.engine import Matcher
from ..text_kinds import PlainTable, RawText, TextKind
from .node import EDGE_BYTES, NODE_BYTES, NOTHING, Node, PrivateText
from .scouts import Scouts
from .shared import Shared
from .value_bounds import narrowed
from .value_places import AnyPlace, TagPlace, value_of


def is_whole(place: AnyPlace | None, kind: TextKind) -> bool:
    """Return whether the end of a string can't have begun yet, at a place inside it. A token that
    begins a string may contain the beginning of its end."""
    if not isinstance(kind, RawText) or place is None:
        return True
    if isinstance(place, TagPlace):
        return place.raw and not kind.ending(place.tail)
    return not place.begun


class NodeMaker:
    """Not thread-safe."""

    def __init__(self, grammar: MeasuredGrammar, shared: Shared) -> None:
        self._shared = shared
        compiled = grammar.compiled
        self.tables = [shared.table(kind) for kind in compiled.free.strings]
        """The tokens of each kind of free strings."""
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
        words = row.words.view(np.uint32)
        if not int(words[token >> 5]) >> (token & 31) & 1:
            matcher = self._scouts.take(node)
            if not matcher.accept(token):
                self._leave(node, matcher)
                return None
            if node.private is not None:
                matcher.rollback(1)
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
            text = PrivateText(node, None, 0)
            text.matcher = matcher
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
        if node.origin is None and node.loop is None:
            self._set_strings(node, words)
        if self._bounds is not None and node.place is not None:
            words = narrowed(words, self._bounds.refused(node.place))
        before = len(shared.rows)
        node.row = shared.rows.row(words)
        if len(shared.rows) > before and node.private is None:
            self._count(words.nbytes)
        return node.row

    def _fill(self, node: Node, words: BitmaskRow) -> None:
        """Write the engine's mask of the tokens that a grammar may allow. Raises BackendError."""
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
            words[:] = pack(token_ids(tokens), len(words) * 32)
        self._leave(node, matcher)

    def _forget_matchers(self, node: Node) -> None:
        """Matchers of a grammar share what has exceeded a limit, so new ones are made."""
        self._scouts.clear()
        if node.private is not None:
            node.private.matcher = None

    def forced(self, node: Node) -> bytes:
        if node.forced is None:
            matcher = self._scouts.take(node)
            node.forced = matcher.forced()
            self._leave(node, matcher)
            if not self.is_outside(node):
                self._count(len(node.forced))
        return node.forced

    def _set_strings(self, node: Node, words: BitmaskRow) -> None:
        table = self._strings(node, words)
        if table is None or table.may_end(words):
            node.strings, node.loop = table, None if table is None else table.loop
        else:
            node.opens = table

    def _strings(self, node: Node, words: BitmaskRow) -> PlainTable | None:
        """Return the kind of the free string inside which a node is, by its mask and its place."""
        value = None if node.place is None else value_of(node.place)
        quote = b"" if value is None else value.quote
        for table in self.tables:
            is_raw = value is None and not table.kind.quote
            if (is_raw or (quote and table.kind.quote == quote)) and table.is_inside(words):
                return table if is_whole(node.place, table.kind) else None
        return None

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
