"""What usually follows at a node of the graphs: the token that followed the last two times.

A model writes the members of an object in the same order in most calls, although masks allow any
order. The token is kept in the node, which all sequences that come there share.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..grammars.graph.node import UNSEEN, Node
from .turn_graph import TurnNode


def usual_token(node: TurnNode | Node) -> int | None:
    """The token that followed the node the last two times; None if these were different, or less
    than two."""
    return node.usual if node.usual >= 0 else None


def learn(steps: Iterable[tuple[TurnNode | Node, int]]) -> None:
    """Note the token that was accepted at each node. What is inside free text, or the text of one
    sequence only, is left out."""
    for node, token in steps:
        if node.loop is None and (isinstance(node, TurnNode) or node.private is None):
            seen = (token, once(token))
            node.usual = token if node.usual in seen else once(token)


def once(token: int) -> int:
    """How a token is noted that followed the last time only. Never UNSEEN."""
    return UNSEEN + 1 + token
