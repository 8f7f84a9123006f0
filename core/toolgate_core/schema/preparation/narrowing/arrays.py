"""Narrower arrays: the items that `contains` asks for come first, and few items are unique."""

from __future__ import annotations

from typing import Any

from ..rewrites.document import Document
from ..rewrites.emptiness import Node
from ..rewrites.negation import Negation, NotExpressible
from ..rewrites.other_values import any_of, both

MAX_CONTAINED = 32
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def narrow_contains(document: Document, pointer: str, node: Node) -> None:
    contained, least = node.pop("contains"), node.pop("minContains", 1)
    most = node.pop("maxContains", None)
    if least > MAX_CONTAINED:
        return
    first, rest = node.get("prefixItems", []), node.get("items", True)
    made = [
        both(document.refer(contained), first[at] if at < len(first) else document.refer(rest))
        for at in range(least)
    ]
    node["prefixItems"] = [*made, *first[least:]]
    node["minItems"] = max(node.get("minItems", 0), least)
    if most is not None:
        try:
            others = any_of(Negation(document).of(contained))
        except NotExpressible:
            node["maxItems"] = min(node.get("maxItems", least), least)
            return
        node["prefixItems"][least:] = [both(others, each) for each in first[least:]]
        node["items"] = both(others, rest)
    if not node["prefixItems"]:
        del node["prefixItems"]


def narrow_unique_items(document: Document, pointer: str, node: Node) -> None:
    """At most one item, or as many as there must be, each of another kind."""
    del node["uniqueItems"]
    least = node.get("minItems", 0)
    if least <= 1:
        node["maxItems"] = min(node.get("maxItems", 1), 1)
        return
    if least > len(LETTERS):
        return
    first, rest = node.get("prefixItems", []), node.get("items", True)
    listed = document.emptiness.listed([rest]) or []
    node["prefixItems"] = [
        both(
            first[at] if at < len(first) else document.refer(rest),
            {"const": listed[at]} if at < len(listed) else _of_kind(at),
        )
        for at in range(least)
    ]
    node["maxItems"] = least


def _of_kind(at: int) -> Any:
    """Values that have no equal among those of another number."""
    return {
        "anyOf": [
            {"type": "string", "pattern": f"^{LETTERS[at]}"},
            {"type": "number", "const": at},
            {"type": "array", "minItems": at + 1, "maxItems": at + 1},
        ]
    }
