"""The engine's matchers of a graph: those at its nodes, and those of texts that have left it.

A matcher is needed only where no sequence has been: to make a node or a mask. That of the nearest
node before it is moved there. Where many tokens may follow and no state is known to return, a graph
would grow by whatever is written. There a sequence leaves it, and each token costs a step of the
engine.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

from ...errors import BackendError
from ..engines.engine import Matcher
from .node import Node, PrivateText

MAX_SCOUTS = 64
"""Maximum number of matchers of one graph."""


class Scouts:
    """Not thread-safe."""

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
