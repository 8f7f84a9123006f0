"""The states of a grammar, as far as sequences have reached them."""

from __future__ import annotations

import gc
from array import array
from collections import deque
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, NamedTuple

from toolgate_core.schema.string_languages import LengthState, State, StringLanguage

from ...tokens.masks import Row
from ..engines.engine import Matcher
from ..text_kinds import PlainTable
from .value_places import Place

NOTHING: dict[int, Node] = {}
"""For nodes without edges. Never changed."""
UNSEEN = -(1 << 40)
"""For nodes of which it is not known what follows."""


class Node:
    """A state of the grammar: what may follow some text. Only `TokenGraph` changes nodes."""

    __slots__ = (
        "complete", "depth", "ends", "finished", "forced", "generation", "loop", "next", "number",
        "opens", "parent", "place", "position", "private", "row", "texts", "token", "usual",
    )  # fmt: skip

    next: dict[int, Node]
    """The nodes after tokens that have been accepted here, without finished ones."""
    loop: bytes | None
    """Inside free text: one byte for each token id, which is not zero for the tokens after which
    the node is the same."""
    row: Row | None
    """The mask of the next token; None until somebody asks for it."""
    ends: dict[int, Node]
    """The finished nodes after tokens that have been accepted here."""
    finished: bool
    """Whether the text is complete and nothing may follow."""
    complete: bool
    """Whether the text is complete, although more may follow."""

    def __init__(self, parent: Node | None, token: int, generation: int) -> None:
        self.next = self.ends = NOTHING
        self.loop = self.row = None
        self.finished = self.complete = False
        self.parent, self.token = parent, token
        """A path to the node: its engine's matcher accepts the tokens up to the root."""
        self.generation = generation
        self.usual = self.forced = UNSEEN
        """For drafts: the token that usually follows, and the one that begins what is forced
        (enforcement/jump_forward.py)."""
        self.place: Place | None = None
        """For the bounds on values."""
        self.position: StringPosition | None = None
        """Inside a string whose language is known."""
        self.opens: PlainTable | None = None
        """The kind of the string that begins at this node, until its language is known."""
        self.texts: dict[Hashable, Node] | None = None
        """The nodes after this one whose state depends on the text since then only, by this text,
        or by what else tells the state."""
        self.number: Node | None = None
        """Inside a number: the node before it."""
        self.private: PrivateText | None = None
        """The text of a node that is no part of the graph."""
        self.depth = 0
        """The number of tokens of the private text."""


FREE_TEXT = b""
"""Stands for all texts of a string after which any text may follow."""


class StringPosition(NamedTuple):
    """A position inside a string."""

    anchor: Node
    """The node before its first character."""
    table: PlainTable
    language: StringLanguage
    state: State
    """After the whole text before `begun`."""
    begun: bytes = b""
    """The character, the escape or the end that may have begun."""

    @property
    def counted(self) -> LengthState | None:
        """If only the number of characters matters: that."""
        return None if self.begun else self.language.counted(self.state)

    @property
    def key(self) -> Hashable:
        """What tells the state of the grammar among the texts since `anchor`."""
        counted = self.counted
        return FREE_TEXT if counted is not None and not counted.kind else (self.state, self.begun)


class CountedEdges(dict[int, Node]):
    """The edges of a node inside a string of which only the number of characters matters. Those of
    tokens after which the text is whole are found by their number of characters."""

    def __init__(self, counts: bytes, counted: LengthState, nodes: dict[int, Node]) -> None:
        """`counts`: the number of characters of each token, or 0. `nodes` are those that this one
        leads to, by their number of characters."""
        super().__init__()
        self._counts, self._count, self._top = counts, counted.length, counted.top
        self.nodes = nodes

    def get(self, token: int, default: Any = None) -> Any:
        count = self._counts[token] if 0 <= token < len(self._counts) else 0
        if count:
            return self.nodes.get(min(self._count + count, self._top), default)
        return super().get(token, default)

    def __setitem__(self, token: int, node: Node) -> None:
        if count := self._counts[token]:
            self.nodes[min(self._count + count, self._top)] = node
        else:
            super().__setitem__(token, node)


class PrivateText:
    """The tokens of one sequence after a node of the graph. It only grows: a text that takes
    another way is a new one."""

    __slots__ = ("base", "matcher", "tokens")

    def __init__(self, base: Node, tokens: array[int], matcher: Matcher | None) -> None:
        self.base = base
        self.tokens = tokens
        self.matcher = matcher
        """At the end of `tokens`; None if another text has it."""


NODE_BYTES = 900
EDGE_BYTES = 100
FROZEN_AT_ONCE = 4 * 2**20
"""Bytes of new nodes after which Python's garbage collector leaves out all objects that exist. It
would visit each node in each full collection, which takes half a second for a full memory, and find
nothing: dropped nodes are cleared. As when vLLM does so at its start, other objects that refer to
each other in a circle are not freed if they have existed then; few do in an engine."""
CLEARED_AT_ONCE = 64
"""Number of dropped nodes that are cleared with each new one, so that no step has to wait for
all."""


class GraphMemory:
    """Counts what graphs make. Beyond the bound a new generation begins: all graphs begin anew."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._frozen = 0
        """The bytes of this generation that Python's garbage collector leaves out."""
        self.begin_anew: Callable[[], None] = lambda: None
        """Is called after a new generation has begun."""
        self._lock = Lock()
        self._dropped: deque[Node] = deque()
        self.generation = 0
        self.bytes = 0
        """The bytes of this generation."""

    @property
    def is_full(self) -> bool:
        return self.bytes > self._max_bytes

    def add(self, count: int) -> None:
        """Count bytes of this generation."""
        with self._lock:
            self.bytes += count

    def tidy(self) -> None:
        """Begin a new generation if this one is full, and clear some dropped nodes. Called without
        a graph's lock."""
        begins = False
        with self._lock:
            if self.is_full:
                self.generation, self.bytes, begins = self.generation + 1, 0, True
            self._frozen = min(self._frozen, self.bytes)
            if self.bytes - self._frozen > FROZEN_AT_ONCE:
                self._frozen = self.bytes
                gc.collect(1)
                gc.freeze()
        if begins:
            self.begin_anew()
        self._clear_some()

    def drop(self, root: Node, size: int = 0) -> None:
        """Free the nodes after `root`, bit by bit. Sequences may still use them. `size`: their
        bytes, if they are of this generation. Takes no lock: a garbage collection may call this."""
        self._dropped.append(root)
        if root.generation == self.generation:
            self.bytes -= size

    def _clear_some(self) -> None:
        """Remove the edges of some nodes, which refer to each other otherwise."""
        for _ in range(CLEARED_AT_ONCE):
            try:
                node = self._dropped.pop()
            except IndexError:
                return
            following = [*node.next.values(), *(node.texts or {}).values()]
            if isinstance(node.next, CountedEdges):
                following += node.next.nodes.values()
                node.next.nodes.clear()
            node.next, node.ends, node.texts, node.position = NOTHING, NOTHING, None, None
            self._dropped.extend(following)
