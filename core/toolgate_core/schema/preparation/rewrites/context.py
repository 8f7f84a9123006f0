"""What holds for the values of a node because of the schemas around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...keywords import DEFINITIONS
from ...walk import schemas_in
from .emptiness import Node

MAX_DEPTH = 8
_CONDITION = ("if", "then", "else")
_IN_PLACE = frozenset({"allOf", "anyOf", "dependentSchemas", "not", "oneOf", *_CONDITION})
_TOGETHER = dict.fromkeys(_CONDITION, _CONDITION)


class Context:
    """Nodes that stand in one place only, inside a schema of the same values.

    A rewrite of such a node may use the rest of that schema: both together accept the same values
    as before. The rest is taken as it is at that time, so that no two nodes are rewritten because
    of each other.
    """

    def __init__(self, nodes: Sequence[Node], target: Callable[[Node], Any]) -> None:
        """`nodes`: all nodes of a schema, the outermost first."""
        self._target = target
        self._uses: dict[int, list[tuple[Node, str] | None]] = {}
        for root in nodes[:1]:
            self._use(root, None)
        for node in nodes:
            if "$ref" in node:
                self._use(target(node), (node, "$ref"))
            for keyword, value in node.items():
                if keyword not in DEFINITIONS:
                    for _, child in schemas_in("", keyword, value):
                        self._use(child, (node, keyword) if keyword in _IN_PLACE else None)

    def _use(self, child: Any, use: tuple[Node, str] | None) -> None:
        if isinstance(child, dict):
            self._uses.setdefault(id(child), []).append(use)

    def around(self, node: Node) -> list[Node]:
        """Schemas that all values of a node satisfy. They are copies, for proofs."""
        found: list[Node] = []
        for _ in range(MAX_DEPTH):
            uses = self._uses.get(id(node), [])
            if len(uses) != 1 or uses[0] is None:
                break
            parent, keyword = uses[0]
            rest = without(parent, self._target, *_TOGETHER.get(keyword, (keyword,)))
            if keyword == "allOf":
                others = [each for each in parent.get("allOf", ()) if each is not node]
                rest["allOf"] = [*rest.get("allOf", ()), *others]
            found.append(rest)
            node = parent
        return found


def without(node: Node, target: Callable[[Node], Any], *keywords: str) -> Node:
    """A copy of a node without these keywords. It gets no reference of its own, because it does not
    become a part of the schema."""
    rest = {k: v for k, v in node.items() if k not in keywords}
    if "$ref" in rest:
        rest["allOf"] = [*rest.get("allOf", ()), target(node)]
        del rest["$ref"]
    return rest
