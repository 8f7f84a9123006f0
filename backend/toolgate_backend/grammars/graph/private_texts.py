"""Texts that are no part of the graph: of one sequence, each with a matcher of its own.

Where many tokens may follow and no state is known to return, a graph would grow by whatever is
written. There, a sequence leaves it, and each token costs a step of the engine.
"""

from __future__ import annotations

from array import array

from ..engines.engine import EngineMatcher
from .node import Node
from .scouts import Scouts, advance


class PrivateText:
    """The tokens after a node of the graph, or after a part of another private text. It only grows:
    a text that takes another way is a new one."""

    __slots__ = ("base", "base_length", "base_node", "matcher", "tokens")

    def __init__(self, base_node: Node, base: PrivateText | None, base_length: int) -> None:
        self.base_node = base_node
        self.base, self.base_length = base, base_length
        self.tokens = array("i")
        self.matcher: EngineMatcher | None = None
        """At the end of `tokens`; None if another text has it."""

    def all_tokens(self) -> list[int]:
        """The tokens after `base_node`."""
        parts = [self.tokens.tolist()]
        text = self
        while text.base is not None:
            parts.append(text.base.tokens[: text.base_length].tolist())
            text = text.base
        return [token for part in reversed(parts) for token in part]


def text_at(node: Node, scouts: Scouts) -> tuple[PrivateText, EngineMatcher]:
    """The text of a private node, which ends there, with its matcher. `depth` of the node is the
    number of tokens of the text. Raises BackendError."""
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
    """A fresh matcher at a node of the graph, whose own ones stay where they are."""
    path: list[int] = []
    while node.parent is not None:
        path.append(node.token)
        node = node.parent
    matcher = scouts.fresh()
    for token in reversed(path):
        advance(matcher, token)
    return matcher
