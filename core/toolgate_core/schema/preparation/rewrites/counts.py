"""Bounds on the number of members of closed objects as alternatives: which of the optional members
are there, or are not."""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import Any

from ..relaxation import Occurrence
from .document import Document
from .emptiness import Node

MAX_WAYS = 24


def rewrite_min_properties(document: Document, pointer: str, node: Node) -> None:
    known = _members(document, node, "minProperties")
    if known is None:
        return
    required, optional = known
    missing = node["minProperties"] - len(required)
    if not 1 < missing <= len(optional) or comb(len(optional), missing) > MAX_WAYS:
        return
    ways = [{"required": [*some]} for some in combinations(optional, missing)]
    _replace(document, pointer, node, "minProperties", ways)


def rewrite_max_properties(document: Document, pointer: str, node: Node) -> None:
    known = _members(document, node, "maxProperties")
    if known is None:
        return
    required, optional = known
    allowed = node["maxProperties"] - len(required)
    if not 0 <= allowed < len(optional) or comb(len(optional), allowed) > MAX_WAYS:
        return
    ways = [
        {"properties": {name: False for name in optional if name not in some}}
        for some in combinations(optional, allowed)
    ]
    _replace(document, pointer, node, "maxProperties", ways)


def _members(document: Document, node: Node, keyword: str) -> tuple[set[str], list[str]] | None:
    """The required and the optional members of an object of which all are known."""
    if keyword not in node:
        return None
    beside = document.beside(node)
    names = document.emptiness.names([beside])
    required = {
        name for each in document.emptiness.conjuncts([beside]) for name in each.get("required", ())
    }
    if names is None or not required <= set(names):
        return None
    return required, [name for name in names if name not in required]


def _replace(document: Document, pointer: str, node: Node, keyword: str, ways: list[Any]) -> None:
    """The ways are for objects; values of other types satisfy the keyword and each way."""
    for way in ways:
        document.made(way, Occurrence(f"{pointer}/{keyword}", keyword))
    document.replace(node, keyword, "anyOf", ways)
