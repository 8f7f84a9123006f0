"""Numbers between two bounds as a list, where engines do not support the other keywords."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor
from typing import Any

import jsonschema_rs

from ..canonical import canonical_json
from .unsupported import EXACT

MAX_LISTED = 64
_BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
_NUMERIC = frozenset({"type", "multipleOf", "not", *_BOUNDS})


def list_numbers(node: dict[str, Any]) -> None:
    """Replace multiples that may be negative, and integers with a `not`, with their list."""
    kind = node.get("type")
    if kind not in ("integer", "number") or node.keys() - _NUMERIC:
        return
    if not ("not" in node or ("multipleOf" in node and _low(node) < 0)):
        return
    if '"$ref"' in canonical_json(node.get("not", True)):
        return
    values = _values(node, Fraction(str(node.get("multipleOf", 1))))
    if values is None or (kind == "number" and "multipleOf" not in node):
        return
    check = jsonschema_rs.validator_for(node, validate_formats=True)
    kept = [value for value in values if check.is_valid(value)]
    node.clear()
    node["enum" if kept else "not"] = kept or {}


def _low(node: dict[str, Any]) -> float:
    return float(max(node.get("minimum", -EXACT), node.get("exclusiveMinimum", -EXACT)))


def _values(node: dict[str, Any], step: Fraction) -> list[float] | None:
    """The multiples of a step between the bounds, both included; None if there are too many."""
    low = _low(node)
    high = min(node.get("maximum", EXACT), node.get("exclusiveMaximum", EXACT))
    if max(-low, high) >= EXACT:
        return None
    first, last = ceil(Fraction(str(low)) / step), floor(Fraction(str(high)) / step)
    if last - first >= MAX_LISTED:
        return None
    multiples = (step * times for times in range(first, last + 1))
    return [int(each) if each.denominator == 1 else float(each) for each in multiples]
