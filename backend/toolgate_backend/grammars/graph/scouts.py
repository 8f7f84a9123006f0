"""The engine's matchers of a graph, each at some node.

A matcher is needed only where no sequence has been: to make a node or a mask. The one that is
nearest is moved there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from itertools import islice

from ...errors import BackendError
from ..engines.engine import EngineMatcher
from .node import Node

MAX_SCOUTS = 64
"""Of one graph."""
LATEST = 4
"""Number of matchers that are considered for a way back. The last ones are usually nearest."""


class Scouts:
    """Not thread-safe."""

    def __init__(self, make: Callable[[], EngineMatcher], *, rolls_back: bool) -> None:
        """`rolls_back`: whether the engine undoes tokens at no cost."""
        self._make = make
        self._rolls_back = rolls_back
        self._matchers: OrderedDict[Node, EngineMatcher] = OrderedDict()

    def take(self, node: Node) -> EngineMatcher:
        """A matcher at a node, which is no longer among these. Raises BackendError."""
        matcher = self._matchers.pop(node, None)
        return self._moved(node) if matcher is None else matcher

    def put(self, node: Node, matcher: EngineMatcher) -> None:
        """Add a matcher that is at a node."""
        self._matchers[node] = matcher
        self._matchers.move_to_end(node)
        if len(self._matchers) > MAX_SCOUTS:
            self._matchers.popitem(last=False)

    def clear(self) -> None:
        self._matchers.clear()

    def fresh(self) -> EngineMatcher:
        return self._make()

    def _moved(self, node: Node) -> EngineMatcher:
        path: list[Node] = []
        here: Node | None = node
        while here is not None and here not in self._matchers:
            path.append(here)
            here = here.parent
        start, back = here, 0
        if self._rolls_back:
            start, back, path = self._way_back(path, here)
        matcher = self._make() if start is None else self._matchers.pop(start)
        if back:
            matcher.rollback(back)
        for each in reversed(path):
            if each.parent is not None:
                advance(matcher, each.token)
        return matcher

    def _way_back(
        self, path: list[Node], ancestor: Node | None
    ) -> tuple[Node | None, int, list[Node]]:
        """The node of the nearest matcher, the number of tokens to undo, and the nodes from there.
        `path` leads back to `ancestor`, which has a matcher."""
        best, undone, forward = ancestor, 0, len(path)
        places = {each: at for at, each in enumerate(path)}
        for start in islice(reversed(self._matchers), LATEST):
            here: Node | None = start
            back = 0
            while here is not None and here not in places and back < forward:
                here, back = here.parent, back + 1
            if here is not None and here in places and back + places[here] < undone + forward:
                best, undone, forward = start, back, places[here]
        return best, undone, path[:forward]


def advance(matcher: EngineMatcher, token: int) -> None:
    """Accept a token of a known text. Raises BackendError."""
    if not matcher.accept(token):
        matcher.check()
        raise BackendError("The tokens of a known text could not be read again.")
