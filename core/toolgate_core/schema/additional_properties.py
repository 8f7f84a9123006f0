"""Open objects: `additionalProperties: true` for objects that declare properties and do not set it.

This is the meaning of such objects in JSON Schema (2020-12, core §10.3.2.3). Grammars close them
unless the keyword is set (decision 5).
"""

from __future__ import annotations

from typing import Any

from .walk import deep_copy, schema_objects

_EXPLICIT = frozenset({"additionalProperties", "patternProperties"})


def has_open_objects(schema: Any) -> bool:
    """Whether one of its objects sets `additionalProperties` to true. The canonical form drops
    that keyword, since it is the default of JSON Schema."""
    return any(node.get("additionalProperties") in (True, {}) for node in schema_objects(schema))


def with_open_objects(schema: Any) -> Any:
    """A copy of `schema` that sets `additionalProperties: true` where it is the default.

    A schema with `unevaluatedProperties` is returned unchanged: next to that keyword, an explicit
    `additionalProperties` would change its meaning.
    """
    if any("unevaluatedProperties" in node for node in schema_objects(schema)):
        return schema
    copy = deep_copy(schema)
    for node in schema_objects(copy):
        if node.get("properties") and not node.keys() & _EXPLICIT:
            node["additionalProperties"] = True
    return copy
