"""Narrower objects: they have known members only, as many as are needed."""

from __future__ import annotations

from typing import Any

from ..rewrites.document import Document
from ..rewrites.emptiness import Node, members

NAMES = ("a", "b", "c", "name", "key", "id", "ab", "A", "A1", "1", "2", "x-a", "a.b", "abc", "b1")
"""Names of members of objects that declare none."""
MAX_INVENTED = 4


def narrow_names(document: Document, pointer: str, node: Node) -> None:
    """Declare all members. Replaces the keywords about their names."""
    node["properties"] = _members(document, node, node.get("minProperties", 0))
    node["additionalProperties"] = False
    for keyword in ("patternProperties", "propertyNames"):
        node.pop(keyword, None)


def narrow_counts(document: Document, pointer: str, node: Node) -> None:
    """Require as many members as there must be, and declare no more than there may be."""
    least, most = node.pop("minProperties", 0), node.pop("maxProperties", None)
    declared = _members(document, node, least)
    required = [*node.get("required", ())]
    optional = [name for name in declared if name not in required]
    missing = max(0, least - len(required))
    required, optional = required + optional[:missing], optional[missing:]
    if most is not None:
        optional = optional[: max(0, most - len(required))]
    kept = {*required, *optional}
    node["properties"] = {name: schema for name, schema in declared.items() if name in kept}
    node["additionalProperties"] = False
    if required:
        node["required"] = sorted(required)
    for keyword in ("patternProperties", "propertyNames"):
        node.pop(keyword, None)


def _members(document: Document, node: Node, least: int) -> dict[str, Any]:
    """The schemas of the declared members, and of some others if these are too few."""
    never = document.emptiness.never
    names = dict.fromkeys([*node.get("properties", {}), *node.get("required", ())])
    found: dict[str, Any] = {}
    invented = 0
    for name in [*names, *(each for each in NAMES if each not in names)]:
        if name not in names and (len(found) >= least and (names or invented >= MAX_INVENTED)):
            break
        schemas = members(node, name)
        allowed = not never(node.get("propertyNames", True), {"const": name})
        if allowed and not never(*schemas):
            found[name] = _all(document, schemas)
            invented += name not in names
    return found


def _all(document: Document, schemas: list[Any]) -> Any:
    schemas = [schema for schema in schemas if schema not in (True, {})]
    if not schemas:
        return {}
    parts = [document.refer(schema) for schema in schemas]
    return parts[0] if len(parts) == 1 else {"allOf": parts}
