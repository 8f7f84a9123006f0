"""Closing of objects: an object schema that declares properties allows no others by default.

Tools are called with the arguments that they declare, and a weak model that may invent members does
not stop. xgrammar closes objects itself (`strict_mode`). For llguidance, this module closes them in
the schema. Closing only forbids more, so every accepted value is still valid under the original
schema.
"""

from __future__ import annotations

from typing import Any

from .keywords import (
    SCHEMA_KEYWORDS,
    SCHEMA_LIST_KEYWORDS,
    SCHEMA_MAP_KEYWORDS,
)
from .walk import subschemas

_COMBINING_KEYWORDS = frozenset(
    {
        "$dynamicRef",
        "$ref",
        "allOf",
        "anyOf",
        "dependencies",
        "dependentSchemas",
        "else",
        "if",
        "not",
        "oneOf",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_DEFINITION_KEYWORDS = frozenset({"$defs", "definitions"})
_MEMBER_KEYWORDS = frozenset({"additionalProperties", "patternProperties", "propertyNames"})


def close_objects(parameters: dict[str, Any]) -> dict[str, Any]:
    """`parameters` with closed objects. Unchanged if two schemas describe the same object, because
    each would forbid the properties of the other."""
    if not are_closed(parameters):
        return parameters
    closed = _close(parameters)
    assert isinstance(closed, dict)
    return closed


def are_closed(parameters: Any) -> bool:
    """Whether objects that declare properties are closed by default."""
    return not any(_combines(schema) for _, schema in subschemas(parameters))


def _combines(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    combining = schema.keys() & _COMBINING_KEYWORDS
    if len(combining) > 1 or "allOf" in combining:
        return True
    return bool(combining) and bool(schema.keys() - combining - _DEFINITION_KEYWORDS)


def _close(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    closed = {keyword: _close_inside(keyword, value) for keyword, value in schema.items()}
    properties = schema.get("properties")
    if (
        isinstance(properties, dict)
        and properties
        and not schema.keys() & _MEMBER_KEYWORDS
        and set(schema.get("required", ())) <= properties.keys()
        and schema.get("minProperties", 0) <= sum(p is not False for p in properties.values())
    ):
        closed["additionalProperties"] = False
    return closed


def _close_inside(keyword: str, value: Any) -> Any:
    if keyword in SCHEMA_MAP_KEYWORDS and isinstance(value, dict):
        return {name: _close(child) for name, child in value.items()}
    if keyword in SCHEMA_LIST_KEYWORDS and isinstance(value, list):
        return [_close(child) for child in value]
    return _close(value) if keyword in SCHEMA_KEYWORDS else value
