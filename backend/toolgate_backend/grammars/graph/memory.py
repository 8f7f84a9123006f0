"""The memory of all token graphs of a process, and its bound."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock

from .node import NOTHING, Node

NODE_BYTES = 900
EDGE_BYTES = 100
CLEARED_AT_ONCE = 64
"""Number of dropped nodes that are cleared with each new one, so that no step has to wait for
all."""


class GraphMemory:
    """Counts what graphs make. Beyond the bound a new generation begins: all graphs begin anew."""

    def __init__(self, max_bytes: int, begin_anew: Callable[[], None]) -> None:
        """`begin_anew` is called after a new generation has begun."""
        self._max_bytes = max_bytes
        self._begin_anew = begin_anew
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
            self._begin_anew()
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
