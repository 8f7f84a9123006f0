"""The violations of keywords without schemas inside, as alternatives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...formats import BUILT_IN, CHECKED, PATTERNS
from ...regular.languages import Matching
from .emptiness import Node
from .facts import TYPES, types_of
from .other_values import other_values


def flat_violations(node: Node) -> Iterator[Any]:
    if "type" in node:
        yield from _other_types(node)
    if "enum" in node:
        yield from other_values(node["enum"])
    if "const" in node:
        yield from other_values([node["const"]])
    for keyword, (kind, violated) in _BOUNDS.items():
        if keyword in node:
            value = node[keyword]
            step = {"min": -1, "max": 1}[keyword[:3]] if kind != "number" else 0
            if value + step >= 0 or kind == "number":
                yield {"type": kind, violated: value + step}
    if "pattern" in node:
        other = (~Matching(node["pattern"])).pattern
        if other is None:
            yield {"type": "string", "not": {"pattern": node["pattern"]}}
        else:
            yield {"type": "string", "pattern": other}
    if node.get("format") in BUILT_IN | CHECKED | PATTERNS.keys():
        yield {"type": "string", "not": {"format": node["format"]}}
    if "multipleOf" in node:
        yield {"type": "number", "not": {"multipleOf": node["multipleOf"]}}
    if node.get("uniqueItems") is True:
        yield {"type": "array", "not": {"uniqueItems": True}}
    for name in node.get("required", ()):
        yield {"type": "object", "properties": {name: False}}
    for name, names in node.get("dependentRequired", {}).items():
        for other in names:
            yield {"type": "object", "required": [name], "properties": {other: False}}


_BOUNDS = {
    "minimum": ("number", "exclusiveMaximum"),
    "maximum": ("number", "exclusiveMinimum"),
    "exclusiveMinimum": ("number", "maximum"),
    "exclusiveMaximum": ("number", "minimum"),
    "minLength": ("string", "maxLength"),
    "maxLength": ("string", "minLength"),
    "minItems": ("array", "maxItems"),
    "maxItems": ("array", "minItems"),
    "minProperties": ("object", "maxProperties"),
    "maxProperties": ("object", "minProperties"),
}


def _other_types(node: Node) -> Iterator[Any]:
    others = TYPES - types_of(node)
    if others:
        yield {"type": sorted(others)}
    names = [node["type"]] if isinstance(node["type"], str) else node["type"]
    if "integer" in names and "number" not in names:
        yield {"type": "number", "not": {"multipleOf": 1}}
