"""Bounds on the number of members of open objects as alternatives: which of the declared members
are there. Engines then count the others."""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import Any

from .unsupported import are_counts_supported

MAX_WAYS = 24
MAX_SIZE = 400
"""Maximum number of properties of all alternatives together."""
_OTHERS = frozenset({"$defs", "anyOf", "allOf", "$ref", "not", "oneOf"})


def divide(node: dict[str, Any], closed: bool) -> None:
    """Replace an object whose members engines can't count with alternatives that they can.
    `closed`: whether objects that declare properties are closed by default."""
    if node.get("type") != "object" or are_counts_supported(node, closed):
        return
    ways = _ways(node)
    if ways is None or len(ways) * len(node["properties"]) > MAX_SIZE:
        return
    outside = {keyword: node.pop(keyword) for keyword in [*node] if keyword in _OTHERS}
    made = [_with_members(node, *way) for way in ways]
    node.clear()
    node |= outside
    if "anyOf" in node:
        node["allOf"] = [*node.get("allOf", ()), {"anyOf": made}]
    else:
        node["anyOf"] = made


Way = tuple[tuple[str, ...], tuple[str, ...]]
"""Optional members that are there, and others that are not."""


def _ways(node: dict[str, Any]) -> list[Way] | None:
    """None if there are too many, or if engines can't count the members of each."""
    required = node.get("required", ())
    declared = [name for name, schema in node.get("properties", {}).items() if schema is not False]
    optional = [name for name in declared if name not in required]
    missing = node.get("minProperties", 0) - len(required)
    allowed = node["maxProperties"] - len(required) if "maxProperties" in node else None
    if not optional or len(optional) > MAX_WAYS or (allowed is not None and allowed < 0):
        return None
    if allowed is None:
        if missing != 1:
            return None
        return [*(((name,), ()) for name in optional), ((), tuple(optional))]
    sizes = range(min(allowed, len(optional)) + 1)
    if missing - 1 > 0 or sum(comb(len(optional), size) for size in sizes) > MAX_WAYS:
        return None
    return [
        (some, tuple(name for name in optional if name not in some))
        for size in sizes
        for some in combinations(optional, size)
    ]


def _with_members(
    node: dict[str, Any], some: tuple[str, ...], absent: tuple[str, ...]
) -> dict[str, Any]:
    made = {**node, "properties": {**node["properties"], **dict.fromkeys(absent, False)}}
    required = [*node.get("required", ()), *some]
    if required:
        made["required"] = required
    return made
