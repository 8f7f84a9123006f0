"""The engine's matchers of a graph: those at its nodes, and those of texts that have left it.

A matcher is needed only where no sequence has been: to make a node or a mask. The one that is
nearest is moved there. Where many tokens may follow and no state is known to return, a graph would
grow by whatever is written. There a sequence leaves it, and each token costs a step of the engine.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable
from itertools import islice

from ...errors import BackendError
from ..engines.engine import EngineMatcher
from .node import Node

MAX_SCOUTS = 64
"""Maximum number of matchers of one graph."""
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
        """Return a matcher at a node, which is no longer among these. Raise BackendError."""
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
        """Return the node of the nearest matcher, the number of tokens to undo, and the nodes from
        there. `path` leads back to `ancestor`, which has a matcher."""
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


class PrivateText:
    """The tokens of one sequence after a node of the graph, or after a part of another private
    text. It only grows: a text that takes another way is a new one."""

    __slots__ = ("base", "base_length", "base_node", "matcher", "tokens")

    def __init__(self, base_node: Node, base: PrivateText | None, base_length: int) -> None:
        self.base_node = base_node
        self.base, self.base_length = base, base_length
        self.tokens = array("i")
        self.matcher: EngineMatcher | None = None
        """At the end of `tokens`; None if another text has it."""

    def all_tokens(self) -> list[int]:
        """Return the tokens after `base_node`."""
        parts = [self.tokens.tolist()]
        text = self
        while text.base is not None:
            parts.append(text.base.tokens[: text.base_length].tolist())
            text = text.base
        return [token for part in reversed(parts) for token in part]


def text_at(node: Node, scouts: Scouts) -> tuple[PrivateText, EngineMatcher]:
    """Return the text of a private node, which ends there, with its matcher. `depth` of the node is
    the number of tokens of the text. Raise BackendError."""
    text = node.private
    assert text is not None
    undone = len(text.tokens) - node.depth
    if undone:
        other = PrivateText(text.base_node, text, node.depth)
        if text.matcher is not None:
            other.matcher, text.matcher = text.matcher, None
            other.matcher.rollback(undone)
        text = node.private = other
        node.depth = 0
    if text.matcher is None:
        matcher = _at_base(text.base_node, scouts)
        for token in text.all_tokens():
            advance(matcher, token)
        text.matcher = matcher
    return text, text.matcher


def _at_base(node: Node, scouts: Scouts) -> EngineMatcher:
    """Return a fresh matcher at a node of the graph, whose own ones stay where they are."""
    path: list[int] = []
    while node.parent is not None:
        path.append(node.token)
        node = node.parent
    matcher = scouts.fresh()
    for token in reversed(path):
        advance(matcher, token)
    return matcher
