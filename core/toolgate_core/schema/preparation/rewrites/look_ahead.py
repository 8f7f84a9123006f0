"""Patterns with look-ahead as patterns without."""

from __future__ import annotations

from ...regular.languages import Matching
from ...strings import is_maskable
from .document import Document
from .emptiness import Node


def rewrite_pattern(document: Document, pointer: str, node: Node) -> None:
    pattern = node.get("pattern")
    if isinstance(pattern, str) and not is_maskable(pattern):
        plain = Matching(pattern).intersected
        if plain is not None:
            node["pattern"], *others = plain
            if others:
                node["allOf"] = [*node.get("allOf", ()), *({"pattern": each} for each in others)]


def rewrite_pattern_properties(document: Document, pointer: str, node: Node) -> None:
    patterns = node.get("patternProperties", {})
    if all(map(is_maskable, patterns)):
        return
    made = {}
    for pattern, schema in patterns.items():
        plain = None if is_maskable(pattern) else Matching(pattern).pattern
        made[plain or pattern] = schema
    if len(made) == len(patterns):
        node["patternProperties"] = made
