"""Copies of definitions with `not`, each of which can be rewritten for its place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Any

from ...walk import at_pointer, deep_copy, pointer_of_ref, subschemas
from .emptiness import Node

MAX_SIZE = 12
"""Maximum number of schemas in a definition that is copied."""
MAX_COPIES = 40


def separate_negations(root: Any, nodes: Sequence[tuple[str, Node]]) -> list[tuple[Node, str]]:
    """Replace references to small definitions with `not` that have several uses, in place. The
    result is the nodes of the copies, with the JSON Pointers of the originals."""
    references = [(node, to) for _, node in nodes if (to := pointer_of_ref(node.get("$ref")))]
    uses = Counter(to for _, to in references)
    made: list[tuple[Node, str]] = []
    copies = 0
    for node, to in references:
        target = at_pointer(root, to)
        if uses[to] < 2 or copies >= MAX_COPIES or not _is_small_negation(target):
            continue
        copies += 1
        del node["$ref"]
        copy = deep_copy(target)
        node["allOf"] = [*node.get("allOf", ()), copy]
        made += [(each, to + at) for at, each in subschemas(copy) if isinstance(each, dict)]
    return made


def _is_small_negation(schema: Any) -> bool:
    if not isinstance(schema, dict) or "not" not in schema:
        return False
    inside = [*islice(subschemas(schema), MAX_SIZE + 1)]
    return len(inside) <= MAX_SIZE and all(
        not isinstance(each, dict) or not {"$ref", "$dynamicRef", "$defs"} & each.keys()
        for _, each in inside
    )
