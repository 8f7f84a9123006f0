"""The keywords of a schema in engine form that no grammar engine enforces correctly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...pointer import escape
from ..formats import BUILT_IN
from ..patterns import is_maskable, matches_nothing
from ..walk import pointer_of_ref, reachable

SUPPORTED = frozenset(
    {
        "$ref",
        "additionalProperties",
        "allOf",
        "anyOf",
        "const",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "pattern",
        "patternProperties",
        "prefixItems",
        "properties",
        "required",
        "type",
    }
)
"""Keywords that llguidance 1.7.6 enforces (parser/src/json/schema.rs), some only with certain
values or in certain combinations. xgrammar enforces fewer (see grammars/engines/choice.py in the
backend)."""

BOUNDS = frozenset({"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum"})
NUMERIC = BOUNDS | {"const", "enum", "multipleOf"}
EXACT = 2**53
"""Largest integer that is always exact in double precision, in which llguidance reads numbers. The
engines' own rules for larger integers are exact."""


def unsupported_keywords(schema: Any) -> Iterator[tuple[str, str]]:
    """The JSON Pointer and the name of each unsupported keyword."""
    for pointer, node in reachable(schema):
        for keyword in node:
            if not _is_supported(node, keyword):
                yield f"{pointer}/{escape(keyword)}", keyword


def _is_supported(node: dict[str, Any], keyword: str) -> bool:
    value = node[keyword]
    if keyword == "$defs":
        return True
    if keyword not in SUPPORTED:
        return False
    if keyword == "$ref":
        return pointer_of_ref(value) is not None
    if keyword == "format":
        return value in BUILT_IN
    if keyword == "pattern":
        return is_maskable(value)
    if keyword == "patternProperties":
        return all(map(is_maskable, value)) and has_readable_names(node)
    if keyword == "minProperties" and value > 1:  # undeclared names may come twice
        is_open = node.get("additionalProperties", not node.get("properties")) is not False
        return not is_open and "patternProperties" not in node
    if keyword == "multipleOf" and not _never_negative(node):
        return False
    if keyword in BOUNDS and (node.get("type") != "integer" or "multipleOf" in node):
        return is_exact(value)
    return keyword not in NUMERIC or is_exact(value, integers=keyword != "multipleOf")


def has_large_numbers(node: Any) -> bool:
    """Whether a subschema, without those inside it, has numbers beyond double precision."""
    return isinstance(node, dict) and not all(is_exact(node[k]) for k in NUMERIC & node.keys())


def has_readable_names(node: dict[str, Any]) -> bool:
    """Whether a pattern of names is all that an object says of its members. A grammar that allows a
    member without a name for it would have a state without an end."""
    patterns = node["patternProperties"]
    if node.get("additionalProperties") is not False or node.get("properties"):
        return False
    if node.get("required") or len(patterns) != 1:
        return False
    return not any(map(matches_nothing, patterns))


def _never_negative(node: dict[str, Any]) -> bool:
    """Whether the schema excludes negative numbers. llguidance excludes them next to `multipleOf`,
    so masks would exclude valid values of other schemas."""
    return any(node.get(bound, -1) >= 0 for bound in ("minimum", "exclusiveMinimum"))


def is_exact(value: Any, most: int = EXACT, *, integers: bool = False) -> bool:
    """Whether double precision represents every number in a value exactly, because none exceeds
    `most`. `integers`: those may have any size."""
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
        elif isinstance(value, int) and integers:
            continue
        elif isinstance(value, int | float) and abs(value) > most:
            return False
    return True
