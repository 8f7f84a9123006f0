"""The keywords of a schema in engine form that no grammar engine enforces correctly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...pointer import escape
from ..closed_objects import are_closed
from ..formats import BUILT_IN
from ..regular.languages import Matching, texts
from ..strings import is_maskable
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

NUMERIC = frozenset(
    {
        "const",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "maximum",
        "minimum",
        "multipleOf",
    }
)
EXACT = 2**53
"""Largest integer that is always exact: llguidance represents numbers in double precision."""


def unsupported_keywords(schema: Any) -> Iterator[tuple[str, str]]:
    """The JSON Pointer and the name of each unsupported keyword."""
    closed = are_closed(schema)
    for pointer, node in reachable(schema):
        for keyword in node:
            if not _is_supported(node, keyword, closed):
                yield f"{pointer}/{escape(keyword)}", keyword


def _is_supported(node: dict[str, Any], keyword: str, closed: bool) -> bool:
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
        return all(is_maskable(pattern) for pattern in value) and _have_names(node)
    if keyword in ("minProperties", "maxProperties"):
        return are_counts_supported(node, closed)
    if keyword == "multipleOf" and not _never_negative(node):
        return False
    return keyword not in NUMERIC or is_exact(value)


def are_counts_supported(node: dict[str, Any], closed: bool) -> bool:
    """Whether llguidance enforces the bounds on the number of properties of this object. `closed`:
    whether it is closed by default if it declares properties (docs/decisions/0005).

    If all declared properties are required, the bounds concern undeclared ones only. llguidance can
    require one of those, but not two, since a grammar can't prevent a repeated name. If declared
    properties are optional and the object is closed, it can require one of them, or allow at most
    one.
    """
    required, declared = set(node.get("required", ())), node.get("properties", {})
    least = node.get("minProperties", 0) - len(required)
    most = node["maxProperties"] - len(required) if "maxProperties" in node else None
    if all(name in required or schema is False for name, schema in declared.items()):
        return bool(least <= 0 or (least == 1 and _has_undeclared_names(node)))
    if least <= 0 and most is None:
        return True
    if node.get("additionalProperties", not closed) is not False or "patternProperties" in node:
        return False
    return least <= 1 and most in (None, 1)


def _have_names(node: dict[str, Any]) -> bool:
    """Whether there are undeclared names for each pattern. A grammar that allows a further member
    without a name for it has a state without an end."""
    declared = {*node.get("properties", {}), *node.get("required", ())}
    return all(
        schema is False or _has_other_names(pattern, declared) is not False
        for pattern, schema in node["patternProperties"].items()
    )


def _has_other_names(pattern: str, declared: set[str]) -> bool | None:
    """Whether other names than the declared ones match a pattern; None if that is not known."""
    empty = (Matching(pattern) & ~texts(declared)).is_empty
    return None if empty is None else not empty


def _has_undeclared_names(node: dict[str, Any]) -> bool:
    """Whether members may have other names than the declared ones. Otherwise a grammar that waits
    for one has no end."""
    declared = {*node.get("properties", {}), *node.get("required", ())}
    patterns = node.get("patternProperties", {})
    if node.get("additionalProperties", not node.get("properties")) is not False:
        return True
    return any(
        schema is not False and _has_other_names(pattern, declared) is True
        for pattern, schema in patterns.items()
    )


def _never_negative(node: dict[str, Any]) -> bool:
    """Whether the schema excludes negative numbers. llguidance excludes them next to `multipleOf`,
    so masks would exclude valid values of other schemas."""
    return any(node.get(bound, -1) >= 0 for bound in ("minimum", "exclusiveMinimum"))


def is_exact(value: Any, most: int = EXACT) -> bool:
    """Whether double precision represents every number in a value exactly, because none exceeds
    `most`."""
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
        elif isinstance(value, int | float) and abs(value) > most:
            return False
    return True
