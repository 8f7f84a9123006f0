"""Closing of objects: an object schema that declares properties allows no others by default.

Tools are called with the arguments that they declare, and a weak model that may invent members does
not stop. xgrammar closes objects itself (`strict_mode`). For llguidance, this module closes them in
the schema. Closing only forbids more, so every accepted value is still valid under the original
schema.

Where objects are to be open, `additionalProperties: true` is set: without the keyword, JSON Schema
means the same (2020-12, core §10.3.2.3), but grammars close them (decision 5).
"""

from __future__ import annotations

from typing import Any

from .keywords import DEFINITIONS
from .walk import deep_copy, schema_objects

_EXPLICIT = frozenset({"additionalProperties", "patternProperties"})
_COMBINING_KEYWORDS = frozenset(
    {
        *("$dynamicRef", "$ref", "allOf", "anyOf", "dependencies", "dependentSchemas"),
        *("else", "if", "not", "oneOf", "then", "unevaluatedItems", "unevaluatedProperties"),
    }
)
_MEMBER_KEYWORDS = frozenset({"additionalProperties", "patternProperties", "propertyNames"})


def close_objects(parameters: dict[str, Any]) -> dict[str, Any]:
    """`parameters` with closed objects. Unchanged if two schemas describe the same object, because
    each would forbid the properties of the other."""
    if not are_closed(parameters):
        return parameters
    closed: dict[str, Any] = deep_copy(parameters)
    for node in schema_objects(closed):
        if _is_closed(node):
            node["additionalProperties"] = False
    return closed


def are_closed(parameters: Any) -> bool:
    """Return whether objects that declare properties are closed by default."""
    return not any(map(_combines, schema_objects(parameters)))


def _combines(schema: dict[str, Any]) -> bool:
    combining = schema.keys() & _COMBINING_KEYWORDS
    if len(combining) > 1 or "allOf" in combining:
        return True
    return bool(combining) and bool(schema.keys() - combining - {*DEFINITIONS})


def _is_closed(schema: dict[str, Any]) -> bool:
    """Return whether an object declares all members that it needs, and no others."""
    properties = schema.get("properties")
    return (
        isinstance(properties, dict)
        and bool(properties)
        and not schema.keys() & _MEMBER_KEYWORDS
        and set(schema.get("required", ())) <= properties.keys()
        and schema.get("minProperties", 0) <= sum(p is not False for p in properties.values())
    )


def has_open_objects(schema: Any) -> bool:
    """Return whether one of its objects sets `additionalProperties` to true. The canonical form
    drops that keyword, since it is the default of JSON Schema."""
    return any(node.get("additionalProperties") in (True, {}) for node in schema_objects(schema))


def with_open_objects(schema: Any) -> Any:
    """Return a copy of `schema` that sets `additionalProperties: true` where it is the default.

    A schema with `unevaluatedProperties` is returned unchanged: next to that keyword, an explicit
    `additionalProperties` would change its meaning."""
    if any("unevaluatedProperties" in node for node in schema_objects(schema)):
        return schema
    copy = deep_copy(schema)
    for node in schema_objects(copy):
        if node.get("properties") and not node.keys() & _EXPLICIT:
            node["additionalProperties"] = True
    return copy
