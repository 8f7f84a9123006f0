"""The token automaton of one compiled grammar, built while it is used and shared by all sequences.

A node is a state of the grammar. It has the nodes after tokens that have been accepted there, and
the row of its mask. An engine's matcher is needed only for tokens and masks that no sequence of the
grammar has met before. Most tokens are text inside a free string, whose state does not change:
there the node is its own successor.

Nodes are found again by the text, if the engine's masks depend on nothing else, and otherwise by
the tokens. Inside free strings they are found by the text in both cases.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from ...errors import BackendError
from ...tokens.masks import BitmaskRow
from ...tokens.rows import Row
from ..compiled_grammar import MeasuredGrammar
from ..engines.engine import Matcher
from .memory import EDGE_BYTES, NODE_BYTES
from .node import NOTHING, Node
from .plain_table import PlainTable
from .private_texts import PrivateText, text_at
from .scouts import Scouts
from .value_bounds import narrowed
from .value_places import value_of

if TYPE_CHECKING:
    from .token_graphs import TokenGraphs

MAX_SINCE = 256
"""Length in bytes of the text by which a node is found. After a longer one it is an anchor."""


class TokenGraph:
    """All methods can be called from any thread, with any node of this grammar."""

    def __init__(self, grammar: MeasuredGrammar, shared: TokenGraphs) -> None:
        self._shared = shared
        compiled = grammar.compiled
        self._by_text = compiled.by_text
        self._kinds = [shared.table(kind) for kind in compiled.strings]
        self._bounds = shared.bounds.of(grammar)
        self._scouts = Scouts(compiled.make, rolls_back=compiled.by_text)
        self._lock = Lock()
        self._bytes = 0
        first = compiled.make()
        self._is_empty, self._may_be_empty = first.finished, first.complete
        self.root = self._new_root()

    def __del__(self) -> None:
        if hasattr(self, "root"):
            self._shared.memory.drop(self.root, self._bytes)

    # --- look-ups ---

    def step(self, node: Node, token: int) -> Node | None:
        """The node after a token; None if the grammar refuses it. Raises BackendError if the engine
        fails."""
        after = node.next.get(token)
        if after is not None:
            return after
        loop = node.loop
        if loop is not None and loop[token]:
            return node
        after = node.ends.get(token)
        if after is not None:
            return after
        with self._lock:
            after = self._extended(node, token)
        self._shared.memory.tidy()
        return after

    def row(self, node: Node) -> Row:
        """The mask of the next token, which may be empty. Raises BackendError if the engine
        fails."""
        if node.row is not None:
            return node.row
        with self._lock:
            row = self._row(node)
        self._shared.memory.tidy()
        return row

    def forced(self, node: Node) -> bytes:
        """The text that must come next, as far as the engine can determine it."""
        if node.forced is None:
            with self._lock:
                matcher = self._matcher(node)
                node.forced = matcher.forced()
                self._leave(node, matcher)
        return node.forced

    def renew(self, *, wait: bool = True) -> None:
        """Begin anew if the memory has. Without `wait`, only if no other thread uses the graph."""
        if self.root.generation == self._shared.memory.generation:
            return
        if not self._lock.acquire(blocking=wait):
            return
        try:
            old = self.root
            if old.generation != self._shared.memory.generation:
                self._scouts.clear()
                self.root, self._bytes = self._new_root(), 0
                self._shared.memory.drop(old)
        finally:
            self._lock.release()

    # --- nodes; under the lock ---

    def _new_root(self) -> Node:
        root = Node(None, -1, self._shared.memory.generation)
        root.finished, root.complete = self._is_empty, self._may_be_empty
        root.place = self._bounds.begin if self._bounds else None
        return root

    def _extended(self, node: Node, token: int) -> Node | None:
        known = node.next.get(token) or node.ends.get(token)
        if known is not None:
            return known
        shared = self._shared
        is_token = 0 <= token < len(shared.unit_bytes)
        if node.finished or not is_token or token in shared.refused:
            return None
        row = self._row(node)
        if node.loop is not None and node.loop[token]:
            return node
        inside = node if node.loop is not None else node.origin
        text = shared.unit_bytes[token]
        if inside is not None:
            return self._extended_inside(node, inside, token, row)
        if self._is_outside(node):
            return self._made(node, token, private=True)
        opened = self._opened(node, text)
        if opened is not None:
            return self._begun(node, token, row, *opened)
        if self._is_unknown_text(node, row):
            return self._made(node, token, private=True)
        return self._found(node, token, row, node.anchor, node.since + text)

    def _extended_inside(self, node: Node, inside: Node, token: int, row: Row) -> Node | None:
        """The node after a token inside a free string."""
        assert inside.strings is not None
        kind, whole = inside.strings.kind, node.begun + self._shared.unit_bytes[token]
        begun = kind.begun(whole)
        if begun is not None:
            return self._begun(node, token, row, inside, begun)
        if self._is_outside(node):
            return self._made(node, token, private=True)
        end = kind.content(whole)
        rest = whole if end is None else whole[end:]
        return self._found(node, token, row, inside, rest, always=node is inside)

    def _begun(self, node: Node, token: int, row: Row, inside: Node, begun: bytes) -> Node | None:
        """The node after a token that stays inside a free string, or opens one, and ends with
        `begun`."""
        if not begun:
            return self._joined(node, token, inside, row)
        if self._is_outside(node):
            after = self._made(node, token, private=True)
        else:
            after = self._found(node, token, row, inside, begun, always=True)
        if after is not None:
            after.origin, after.begun = inside, begun
        return after

    def _found(
        self, node: Node, token: int, row: Row, anchor: Node, text: bytes, *, always: bool = False
    ) -> Node | None:
        """The node after `text` since `anchor`; a new one if there is none."""
        if not (always or self._by_text):
            return self._made(node, token)
        known = None if anchor.texts is None else anchor.texts.get(text)
        if known is not None:
            return self._joined(node, token, known, row)
        made = self._made(node, token)
        if made is not None:
            if anchor.texts is None:
                anchor.texts = {}
            anchor.texts[text] = made
            made.anchor, made.since = anchor, text
            if len(text) > MAX_SINCE:
                made.anchor, made.since = made, b""
        return made

    def _opened(self, node: Node, text: bytes) -> tuple[Node, bytes] | None:
        """The inside of the free string that a token with this text opens, and what has begun
        there."""
        place = None if node.place is None else value_of(node.place)
        if place is None or place.quote:
            return None
        for table in self._kinds:
            at = table.kind.opening(text)
            if at is None or at == len(text):
                continue
            inside: Node | None = node
            for token in self._shared.token_index.cover(text[:at]) or ():
                inside = None if inside is None else self._extended(inside, token)
            if inside is None or inside is node or inside.finished:
                continue
            self._row(inside)
            begun = table.kind.begun(text[at:])
            if inside.strings is table and begun is not None:
                return inside, begun
        return None

    def _joined(self, node: Node, token: int, target: Node, row: Row) -> Node | None:
        """An edge to a known node, if the token is accepted."""
        words = row.words.view(np.uint32)
        if not int(words[token >> 5]) >> (token & 31) & 1:
            matcher = self._matcher(node)
            accepted = matcher.accept(token)
            if accepted and (self._by_text or node.private is not None):
                matcher.rollback(1)
            if self._by_text or not accepted:
                self._leave(node, matcher)
            if not accepted:
                return None
        self._connect(node, token, target)
        return target

    def _is_outside(self, node: Node) -> bool:
        """Whether a node is no part of the graph, or no more."""
        return node.private is not None or node.generation != self.root.generation

    def _connect(self, node: Node, token: int, after: Node) -> None:
        if self._is_outside(node):
            return
        if after.finished:
            node.ends = {} if node.ends is NOTHING else node.ends
            node.ends[token] = after
        else:
            node.next = {} if node.next is NOTHING else node.next
            node.next[token] = after
        self._count(EDGE_BYTES)

    def _made(self, node: Node, token: int, *, private: bool = False) -> Node | None:
        """A new node after a token; None if the engine refuses it."""
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
        """A matcher after a token; None if the token is refused. Raises BackendError."""
        matcher = self._matcher(node)
        if matcher.accept(token):
            return matcher
        with suppress(BackendError):
            matcher.check()
            self._leave(node, matcher)
            return None
        # A limit of the engine, which perhaps another text has exceeded.
        self._scouts.clear()
        if node.private is not None:
            node.private.matcher = None
        matcher = self._matcher(node)
        if matcher.accept(token):
            return matcher
        matcher.check()
        self._leave(node, matcher)
        return None

    def _count(self, count: int) -> None:
        self._bytes += count
        self._shared.memory.add(count)

    # --- masks and matchers; under the lock ---

    def _row(self, node: Node) -> Row:
        if node.row is not None:
            return node.row
        shared = self._shared
        words = np.zeros_like(shared.allowed)
        if not node.finished:
            matcher = self._matcher(node)
            try:
                matcher.fill(words)
            except BackendError:
                self._scouts.clear()
                raise
            self._leave(node, matcher)
            words &= shared.allowed
        if node.origin is None and node.loop is None:
            node.strings = self._strings(node, words)
            node.loop = None if node.strings is None else node.strings.loop
        if self._bounds is not None and node.place is not None:
            words = narrowed(words, self._bounds.refused(node.place))
        before = len(shared.rows)
        node.row = shared.rows.row(words)
        if len(shared.rows) > before and node.private is None:
            self._count(words.nbytes)
        return node.row

    def _strings(self, node: Node, words: BitmaskRow) -> PlainTable | None:
        """The kind of the free string inside which a node is, by its mask and its place."""
        value = None if node.place is None else value_of(node.place)
        quote = b"" if value is None else value.quote
        for table in self._kinds:
            is_raw = value is None and not table.kind.quote
            if (is_raw or (quote and table.kind.quote == quote)) and table.is_inside(words):
                return table
        return None

    def _is_unknown_text(self, node: Node, row: Row) -> bool:
        """Whether a mask is that of text of which nothing is known."""
        if node.place is not None:
            place = value_of(node.place)
            if place is not None and not place.quote:
                return False
        return int.from_bytes(row.view, "little").bit_count() > self._shared.wide

    def _matcher(self, node: Node) -> Matcher:
        """A matcher at a node. It is put back by `_leave`, or at another node."""
        if node.private is not None:
            return text_at(node, self._scouts)[1]
        return self._scouts.take(node)

    def _leave(self, node: Node, matcher: Matcher) -> None:
        """Put back a matcher that is still at a node."""
        if not self._is_outside(node):
            self._scouts.put(node, matcher)
