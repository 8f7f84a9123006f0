"""What in a fitted schema no grammar engine holds soundly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..pointer import escape
from .formats import BUILT_IN
from .strings import holdable
from .walk import pointed, reachable

HELD = frozenset(
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
"""Keywords that llguidance 1.7.6 holds (parser/src/json/schema.rs), some only with certain values
or neighbours. What xgrammar holds is less (see the backend's `choose`)."""

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
"""Numbers are doubles in llguidance: beyond this, integers are no longer told apart."""


def obstacles(schema: Any) -> Iterator[tuple[str, str]]:
    """Pointer and keyword of each."""
    for pointer, node in reachable(schema):
        for keyword in node:
            if not _held(node, keyword):
                yield f"{pointer}/{escape(keyword)}", keyword


def _held(node: dict[str, Any], keyword: str) -> bool:
    value = node[keyword]
    if keyword == "$defs":
        return True
    if keyword not in HELD:
        return False
    if keyword == "$ref":
        return pointed(value) is not None
    if keyword == "format":
        return value in BUILT_IN
    if keyword == "pattern":
        return holdable(value)
    if keyword == "patternProperties":
        return all(holdable(pattern) for pattern in value)
    if keyword in ("minProperties", "maxProperties"):
        return _counted(node)
    if keyword == "multipleOf" and not _never_negative(node):
        return False
    return keyword not in NUMERIC or exact(value)


def _counted(node: dict[str, Any]) -> bool:
    """Whether llguidance holds the bounds on the number of members.

    It does where only members that are not declared count: at most one of these has to be there,
    since in a grammar a member may come twice, and then counts once. Among declared ones that may
    be absent it can ask for one, and for no more than one, if there are no others.
    """
    required, declared = set(node.get("required", ())), node.get("properties", {})
    least = node.get("minProperties", 0) - len(required)
    most = node["maxProperties"] - len(required) if "maxProperties" in node else None
    if all(name in required or schema is False for name, schema in declared.items()):
        return bool(least <= 1)
    if least <= 0 and most is None:
        return True
    # Objects that name their properties are closed where nothing is said (docs/decisions/0005).
    closed = node.get("additionalProperties", False) is False and "patternProperties" not in node
    return closed and least <= 1 and most in (None, 1)


def _never_negative(node: dict[str, Any]) -> bool:
    """Beside `multipleOf` llguidance lets no negative number through, and a model must be able to
    say all that the schema allows."""
    return any(node.get(bound, -1) >= 0 for bound in ("minimum", "exclusiveMinimum"))


def exact(value: Any) -> bool:
    """Whether every number in a value is one that a double tells from its neighbours."""
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
        elif isinstance(value, int | float) and abs(value) > EXACT:
            return False
    return True
