"""Narrower objects: they have known members only, as many as are needed."""

from __future__ import annotations

from itertools import combinations, islice
from typing import Any

from ..rewrites.document import Document
from ..rewrites.emptiness import Node, members
from ..rewrites.facts import types_of
from .samples import names_in

EACH = 3
"""Number of invented names of each kind, at least."""
MAX_NAMES = 64
MAX_TRIES = 300
ABOUT_NAMES = ("patternProperties", "propertyNames")


def close(document: Document, pointer: str, node: Node) -> bool:
    """Declare all members of a node that does not say which ones there are. The result is whether
    this has changed it."""
    if "object" not in types_of(node) or document.emptiness.names([document.beside(node)]):
        return False
    narrow_names(document, pointer, node)
    return True


def narrow_names(document: Document, pointer: str, node: Node) -> None:
    """Declare all members. Replaces the keywords about their names."""
    node["properties"] = _members(document, pointer, node)
    node["additionalProperties"] = False
    for keyword in ABOUT_NAMES:
        node.pop(keyword, None)


def narrow_counts(document: Document, pointer: str, node: Node) -> None:
    """Require as many members as there must be, and declare no more than there may be."""
    least, most = node.pop("minProperties", 0), node.pop("maxProperties", None)
    declared = _members(document, pointer, node, max(EACH, least))
    required = [*node.get("required", ())]
    optional = [name for name in declared if name not in required]
    beside = document.beside(node, *ABOUT_NAMES) | {
        "type": "object",
        "properties": declared,
        "additionalProperties": False,
    }
    missing = max(0, least - len(required))
    for more in islice(combinations(optional, missing), MAX_TRIES):
        if not document.emptiness.never(beside, {"required": [*more]}):
            required += more
            break
    optional = [name for name in optional if name not in required]
    if most is not None:
        optional = optional[: max(0, most - len(required))]
    kept = {*required, *optional}
    node["properties"] = {name: schema for name, schema in declared.items() if name in kept}
    node["additionalProperties"] = False
    if required:
        node["required"] = sorted(required)
    for keyword in ABOUT_NAMES:
        node.pop(keyword, None)


def _members(document: Document, pointer: str, node: Node, each: int = EACH) -> dict[str, Any]:
    """The schemas of the declared members, and of others if the node allows them."""
    never = document.emptiness.never
    declared = {*node.get("properties", {}), *node.get("required", ())}
    beside = document.beside(node)
    found: dict[str, Any] = {}
    invented = 0
    for name in names_in(document, pointer, node, max(each, node.get("minProperties", 0))):
        if name not in declared and invented >= MAX_NAMES:
            continue
        if never(beside, {"type": "object", "required": [name]}):
            continue
        found[name] = _all(document, members(node, name))
        invented += name not in declared
    return found


def _all(document: Document, schemas: list[Any]) -> Any:
    schemas = [schema for schema in schemas if schema not in (True, {})]
    if not schemas:
        return {}
    parts = [document.refer(schema) for schema in schemas]
    return parts[0] if len(parts) == 1 else {"allOf": parts}
