"""The states of a grammar, as far as sequences have reached them."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable
from threading import Lock

from ...tokens.masks import Row
from ..engines.engine import Matcher
from ..text_kinds import PlainTable
from .value_places import AnyPlace

NOTHING: dict[int, Node] = {}
"""For nodes without edges. Never changed."""
UNSEEN = -(1 << 40)
"""For nodes of which it is not known what follows."""


class Node:
    """A state of the grammar: what may follow some text. Only `TokenGraph` changes nodes."""

    __slots__ = (
        "begun", "complete", "depth", "ends", "finished", "forced", "generation", "loop", "next",
        "number", "opens", "origin", "parent", "place", "private", "row", "strings", "texts",
        "token", "usual",
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
        self.usual = UNSEEN
        """For drafts: the token that usually follows (enforcement/jump_forward.py)."""
        self.forced: bytes | None = None
        self.place: AnyPlace | None = None
        """For the bounds on values."""
        self.strings: PlainTable | None = None
        """The kind of the free string whose inside the node is."""
        self.opens: PlainTable | None = None
        """The kind of the string that begins at this node and must not be empty."""
        self.origin: Node | None = None
        """The inside of the free string in which a character, an escape or a mark has begun."""
        self.begun = b""
        """The text that has begun there."""
        self.texts: dict[bytes, Node] | None = None
        """The nodes after this one whose state depends on the text since then only, by this
        text."""
        self.number: Node | None = None
        """Inside a number: the node before it."""
        self.private: PrivateText | None = None
        """The text of a node that is no part of the graph."""
        self.depth = 0
        """The number of tokens of the private text."""


class PrivateText:
    """The tokens of one sequence after a node of the graph, or after a part of another private
    text. It only grows: a text that takes another way is a new one."""

    __slots__ = ("base", "base_length", "base_node", "matcher", "tokens")

    def __init__(self, base_node: Node, base: PrivateText | None, base_length: int) -> None:
        self.base_node = base_node
        self.base, self.base_length = base, base_length
        self.tokens = array("i")
        self.matcher: Matcher | None = None
        """At the end of `tokens`; None if another text has it."""

    def all_tokens(self) -> list[int]:
        """Return the tokens after `base_node`."""
        parts = [self.tokens.tolist()]
        text = self
        while text.base is not None:
            parts.append(text.base.tokens[: text.base_length].tolist())
            text = text.base
        return [token for part in reversed(parts) for token in part]


NODE_BYTES = 900
EDGE_BYTES = 100
CLEARED_AT_ONCE = 64
"""Number of dropped nodes that are cleared with each new one, so that no step has to wait for
all."""


class GraphMemory:
    """Counts what graphs make. Beyond the bound a new generation begins: all graphs begin anew."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
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
            found = [*node.next.values(), *(node.texts or {}).values()]
            node.next, node.ends, node.texts = NOTHING, NOTHING, None
            self._dropped.extend(found)
