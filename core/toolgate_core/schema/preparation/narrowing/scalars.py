"""Narrower strings and numbers: simple ones that a validator accepts."""

from __future__ import annotations

from typing import Any

from ..rewrites.document import Document
from ..rewrites.emptiness import Node
from ..rewrites.facts import types_of
from ..unsupported import EXACT

TEXTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("^[a-z][a-z0-9]*$", ("a", "ab", "b1", "name", "customer2", "z" * 20)),
    ("^[a-z]+$", ("a", "ab", "name", "z" * 20)),
    ("^[A-Z][a-zA-Z0-9]*$", ("A", "Ab", "B1", "Name", "Z" * 20)),
    ("^[0-9]+$", ("0", "10", "123", "9" * 12)),
    (r"^[a-z]+(?:\.[a-z]+)+$", ("a.b", "org.example.name")),
    ("^/[a-z]+(?:/[a-z]+)*$", ("/a", "/path/name")),
    (r"^https://[a-z]+\.[a-z]{2,3}(?:/[a-z]+)*$", ("https://example.org", "https://a.bc/d/e")),
    (r"^[a-z]+@[a-z]+\.[a-z]{2,3}$", ("a@b.cd", "name@example.org")),
)
"""Patterns, and strings of each."""
NUMBERS = (*range(0, 41), *range(50, 1_001, 10), *range(-1, -21, -1), 0.5, 1.5, 2.25, 6.75, -0.5)
MAX_LISTED = 16


def narrow_values(document: Document, pointer: str, node: Node) -> None:
    """A pattern of which the validator accepts the samples; otherwise numbers that it accepts."""
    accepts, types = document.accepts(pointer), types_of(node)
    if "string" in types:
        least, most = node.get("minLength", 0), node.get("maxLength", 100)
        for pattern, samples in TEXTS:
            fitting = [text for text in samples if least <= len(text) <= most]
            if fitting and all(map(accepts, fitting)):
                _replace(node, {"type": "string", "pattern": pattern})
                node |= {"minLength": least} if least else {}
                node |= {"maxLength": most} if most < 100 else {}
                return
    if "number" in types:
        found = [number for number in NUMBERS if accepts(number)]
        if found:
            _replace(node, {"enum": found[:MAX_LISTED]})


def narrow_multiples(document: Document, pointer: str, node: Node) -> None:
    """Engines enforce multiples that are not negative."""
    if node.get("maximum", 1) >= 0 and node.get("exclusiveMaximum", 1) > 0:
        node["minimum"] = max(0, node.get("minimum", 0))
    else:
        narrow_values(document, pointer, node)


def narrow_bounds(document: Document, pointer: str, node: Node) -> None:
    """Bounds that double precision represents exactly."""
    for keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        if keyword in node:
            node[keyword] = max(-EXACT, min(EXACT, node[keyword]))


def _replace(node: Node, keywords: dict[str, Any]) -> None:
    for keyword in [k for k in node if k != "$defs" and k != "definitions"]:
        del node[keyword]
    node.update(keywords)
