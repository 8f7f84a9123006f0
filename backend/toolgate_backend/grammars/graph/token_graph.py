"""The token automaton of one compiled grammar, built while it is used and shared by all sequences.

A node is a state of the grammar. It has the nodes after tokens that have been accepted there, and
the row of its mask. An engine's matcher is needed only for tokens and masks that no sequence of the
grammar has met before. Most tokens are text inside a free string, whose state does not change:
there the node is its own successor.

Nodes are found again by the tokens: an engine's masks may depend on these. Where the state is
proven to depend on the text only, inside and after free strings and numbers, they are found by it.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from threading import Lock
from typing import NamedTuple
from weakref import WeakKeyDictionary

from ...tokens.masks import Row
from ..compiled_grammar import MeasuredGrammar
from ..engines.engine import CompiledGrammar
from ..text_kinds import FreeTexts
from .node import Node, StringPosition
from .node_maker import GraphContext, NodeMaker
from .value_places import value_of

_BEGUN = re.compile(rb"-|-?\d[\d.eE+-]*")
_WHOLE = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_CHARACTERS = frozenset(b"0123456789.eE+-")
_WORD = re.compile(rb"[\w.+-]")
_INTEGER = re.compile(rb"(-?)(0?)(.*)", re.DOTALL)
_DIGIT = re.compile(rb"\d")
ANY = b"0"
"""Stands for every number that is complete."""


class NumberPlace(NamedTuple):
    start: Node
    """The node before the number."""
    key: bytes
    """The text since then, in a form that texts with the same state share."""
    goes_on: bool
    """Whether the text ends in the number."""
    is_free: bool
    """Whether the state depends on this text only."""


class Numbers:
    """The numbers of one grammar, in the texts by which nodes are found.

    After a number the same may follow whatever the number is, and inside a free one its digits do
    not matter either, but for a zero at the beginning. Without this, a graph would have nodes for
    the rest of a call after each number."""

    def __init__(self, free: FreeTexts) -> None:
        self._are_proven = bool(free.strings)
        self._are_free = free.known.numbers

    def place_of(self, node: Node, text: bytes) -> NumberPlace | None:
        """Return the place after a token with this text; None if it is not in a number, or behind
        one."""
        value = None if node.place is None else value_of(node.place)
        if not self._are_proven or value is None or value.quote:
            return None
        start = node.number if value.word else node
        if start is None:
            return None
        if _CHARACTERS.issuperset(text):
            whole = value.word + text
            if not _BEGUN.fullmatch(whole):
                return None
            key = _shape(whole) if self._are_free else whole
            return NumberPlace(start, key, goes_on=True, is_free=self._are_free)
        if value.word and _WHOLE.fullmatch(value.word) and not _WORD.match(text):
            return NumberPlace(start, ANY + text, goes_on=False, is_free=True)
        return None


def _shape(number: bytes) -> bytes:
    """Return a number of which all digits are 1, but a zero at the beginning."""
    digits = _INTEGER.fullmatch(number)
    assert digits is not None
    return digits[1] + digits[2] + _DIGIT.sub(b"1", digits[3])


class TokenGraph:
    """All methods can be called from any thread, with any node of this grammar."""

    def __init__(self, grammar: MeasuredGrammar, shared: GraphContext) -> None:
        self._shared = shared
        self._maker = NodeMaker(grammar, shared)
        self._numbers = Numbers(grammar.compiled.free)
        self._lock = Lock()
        self.root = self._maker.new_root()

    def __del__(self) -> None:
        if hasattr(self, "root"):
            self._shared.memory.drop(self.root, self._maker.bytes)

    # --- look-ups ---

    def step(self, node: Node, token: int) -> Node | None:
        """Return the node after a token; None if the grammar refuses it. Raise BackendError if the
        engine fails."""
        after = node.next.get(token)
        if after is not None:
            return after
        loop = node.loop
        if loop is not None and 0 <= token < len(loop) and loop[token]:
            return node
        after = node.ends.get(token)
        if after is not None:
            return after
        with self._lock:
            after = self._extended(node, token)
        self._shared.memory.tidy()
        return after

    def row(self, node: Node) -> Row:
        """Return the mask of the next token. Raise BackendError if the engine fails, and
        NoTokenAllowed if it allows no token of an unfinished text."""
        if node.row is not None:
            return node.row
        with self._lock:
            row = self._maker.row(node)
        self._shared.memory.tidy()
        return row

    def forced(self, node: Node) -> bytes:
        """Return the text that must come next, as far as the engine can determine it."""
        with self._lock:
            return self._maker.forced(node)

    def renew(self, *, wait: bool = True) -> None:
        """Begin anew if the memory has. Without `wait`, only if no other thread uses the graph."""
        if self.root.generation == self._shared.memory.generation:
            return
        if not self._lock.acquire(blocking=wait):
            return
        try:
            old = self.root
            if old.generation != self._shared.memory.generation:
                self.root = self._maker.new_root()
                self._shared.memory.drop(old)
        finally:
            self._lock.release()

    # --- nodes after a token; under the lock ---

    def _extended(self, node: Node, token: int) -> Node | None:
        shared, maker = self._shared, self._maker
        is_token = 0 <= token < len(shared.unit_bytes)
        if node.finished or not is_token or token in shared.refused:
            return None
        if not maker.is_outside(node) and node.opens is not None:
            maker.begin_string(node)
        if node.loop is not None and node.loop[token]:
            return node
        known = node.next.get(token) or node.ends.get(token)
        if known is not None:
            return known
        if maker.is_outside(node):
            return maker.made(node, token, private=True)  # without a mask, which nobody may need
        row, text, position = maker.row(node), shared.unit_bytes[token], node.position
        if position is not None:
            text = position.begun + text
            begun = position.table.kind.begun(text)
            if begun is not None:
                return self._inside(node, token, row, position, text, begun)
        opening = maker.opening(node.place, shared.unit_bytes[token])
        opened = None if opening is None else self._opened(node, token, row, opening[0])
        if opened is not None:
            return opened
        if position is not None:
            end = position.table.kind.content(text)
            key: Hashable = (position.state, text) if end is None else text[end:]
            after = self._found(node, token, row, position.anchor, key)
        elif maker.is_unknown_text(node, row):
            return maker.made(node, token, private=True)
        else:
            after = self._outside(node, token, row, text)
        is_new = after is not None and after.parent is node and after.token == token
        if after and is_new and opening and opening[0] == len(shared.unit_bytes[token]):
            after.opens = opening[1]
        return after

    def _outside(self, node: Node, token: int, row: Row, text: bytes) -> Node | None:
        """Return the node after a token outside of strings of known languages."""
        number = self._numbers.place_of(node, text)
        if number is not None and number.is_free:
            after = self._found(node, token, row, number.start, number.key)
        else:
            after = self._maker.made(node, token)
        if after is not None and number is not None and number.goes_on:
            after.number = number.start
        return after

    def _inside(
        self, node: Node, token: int, row: Row, position: StringPosition, whole: bytes, begun: bytes
    ) -> Node | None:
        """Return the node after a token with which a text goes on inside a string: after `position`
        comes `whole`, which ends with `begun`."""
        maker, anchor, table = self._maker, position.anchor, position.table
        content = table.kind.characters(whole[: len(whole) - len(begun)])
        state = position.language.after(position.state, content)
        if state is None:
            return maker.made(node, token, private=True)
        position = position._replace(state=state, begun=begun)
        assert anchor.texts is not None
        counted, known = position.counted, anchor.texts.get(position.key)
        if known is not None:
            return maker.joined(node, token, known, row)
        far = counted is not None and counted.is_far(table.longest) and row.allows(token)
        like = anchor.texts.get(counted.kind) if counted is not None and far else None
        after = maker.made(node, token) if like is None else maker.like(node, token, like)
        if after is not None:
            maker.set_position(after, position)
        return after

    def _found(self, node: Node, token: int, row: Row, anchor: Node, text: Hashable) -> Node | None:
        """Return the node after `text` since `anchor`, on which alone its state depends; a new one
        if there is none."""
        known = None if anchor.texts is None else anchor.texts.get(text)
        if known is not None:
            return self._maker.joined(node, token, known, row)
        new = self._maker.made(node, token)
        if new is not None:
            if anchor.texts is None:
                anchor.texts = {}
            anchor.texts[text] = new
        return new

    def _opened(self, node: Node, token: int, row: Row, length: int) -> Node | None:
        """Return the node after a token with which a string begins, after `length` bytes, and goes
        on; None if it does not, or if the string's language is not known."""
        text = self._shared.unit_bytes[token]
        before, content = text[:length], text[length:]
        anchor: Node | None = node if content else None
        for opening in self._shared.token_index.cover(before) or [-1]:
            anchor = None if anchor is None else self._extended(anchor, opening)
        if anchor is None or anchor is node:
            return None
        if anchor.opens is not None:
            self._maker.begin_string(anchor)
        position = anchor.position
        begun = None if position is None else position.table.kind.begun(content)
        if position is None or begun is None or position.anchor is not anchor:
            return None
        return self._inside(node, token, row, position, content, begun)


class TokenGraphs:
    """The graphs of the loaded grammars. A graph goes with its grammar."""

    def __init__(self, shared: GraphContext) -> None:
        self.shared = shared
        self.memory = shared.memory
        self.memory.begin_anew = self._begin_anew
        self._graphs: WeakKeyDictionary[CompiledGrammar, TokenGraph] = WeakKeyDictionary()
        self._lock = Lock()

    def graph_of(self, grammar: MeasuredGrammar) -> TokenGraph:
        """Return the graph of a grammar, in the generation of now."""
        graph = self._graphs.get(grammar.compiled)
        if graph is None:
            new = TokenGraph(grammar, self.shared)
            with self._lock:
                graph = self._graphs.setdefault(grammar.compiled, new)
        graph.renew()
        return graph

    def _begin_anew(self) -> None:
        with self._lock:
            graphs = [*self._graphs.values()]
        for graph in graphs:
            graph.renew(wait=False)
