"""Objects that say nothing of members beyond those they name, made to say that there may be more.

It is what JSON Schema has them mean (2020-12, core §10.3.2.3); grammars read it otherwise unless it
is said (docs/decisions/0005).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .walk import copied, subschemas

_SAID = frozenset({"additionalProperties", "patternProperties"})


def says_open(schema: Any) -> bool:
    """Whether one of its objects may have any further members, and says so: what is made canonical
    says it no more."""
    return any(node.get("additionalProperties") in (True, {}) for node in _objects(schema))


def opened(schema: Any) -> Any:
    """`schema` with the same instances. Left as it is where it says `unevaluatedProperties`: beside
    that, a word on additional members is no longer without effect."""
    if any("unevaluatedProperties" in node for node in _objects(schema)):
        return schema
    made = copied(schema)
    for node in _objects(made):
        if node.get("properties") and not node.keys() & _SAID:
            node["additionalProperties"] = True
    return made


def _objects(schema: Any) -> Iterator[dict[str, Any]]:
    """The subschemas that are no booleans."""
    return (node for _, node in subschemas(schema) if isinstance(node, dict))
