"""The order of members that a grammar gives an instance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema_rs

from toolgate_core.pattern_match import matches
from toolgate_core.schema.walk import at_pointer, pointer_of_ref


def ordered(value: Any, schema: Any) -> Any:
    """`value` with its members in the order of the schema that the engine was given."""
    return _ordered(value, [schema], schema)


def nodes_at(value: Any, schema: Any, steps: list[str]) -> list[dict[str, Any]]:
    """The subschemas without combinations that bear on the part of a value at `steps`, the parts of
    a JSON Pointer."""
    schemas = [schema]
    for step in steps:
        nodes = [node for each in schemas for node in _applying(value, each, schema)]
        if isinstance(value, list):
            value, schemas = value[int(step)], _of_item(int(step), nodes)
        else:
            value, schemas = value[step], _of_member(step, nodes)
    return [node for each in schemas for node in _applying(value, each, schema)]


def _ordered(value: Any, schemas: list[Any], root: Any) -> Any:
    nodes = [node for schema in schemas for node in _applying(value, schema, root)]
    if isinstance(value, dict):
        for node in nodes:
            for listed in node.get("enum", [node.get("const")]):
                if isinstance(listed, dict) and jsonschema_rs.is_valid({"const": listed}, value):
                    return listed
    if isinstance(value, dict):
        names = [name for node in nodes for name in node.get("properties", ())]
        names += [name for node in nodes for name in node.get("required", ())]
        names = [name for name in dict.fromkeys([*names, *value]) if name in value]
        return {n: _ordered(value[n], _of_member(n, nodes), root) for n in names}
    if isinstance(value, list):
        return [_ordered(v, _of_item(at, nodes), root) for at, v in enumerate(value)]
    return value


def _applying(value: Any, schema: Any, root: Any) -> Iterator[dict[str, Any]]:
    """The subschemas without combinations that bear on a value."""
    pending, seen = [schema], set()
    while pending:
        node = pending.pop(0)
        if not isinstance(node, dict) or id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        target = pointer_of_ref(node.get("$ref"))
        if target is not None:
            pending.append(at_pointer(root, target))
        pending.extend(node.get("allOf", ()))
        pending.extend(b for b in node.get("anyOf", ()) if _valid(value, b, root))


def _valid(value: Any, branch: Any, root: Any) -> bool:
    whole = {"$defs": root.get("$defs", {}), "allOf": [branch]}
    try:
        return bool(jsonschema_rs.is_valid(whole, value, validate_formats=True))
    except (ValueError, jsonschema_rs.ValidationError):
        return True


def _of_member(name: str, nodes: list[dict[str, Any]]) -> list[Any]:
    found = []
    for node in nodes:
        own = [s for n, s in node.get("properties", {}).items() if n == name]
        own += [s for p, s in node.get("patternProperties", {}).items() if matches(p, name)]
        found += own or [node.get("additionalProperties", True)]
    return found


def _of_item(at: int, nodes: list[dict[str, Any]]) -> list[Any]:
    prefixes = [node.get("prefixItems", []) for node in nodes]
    return [
        prefix[at] if at < len(prefix) else node.get("items", True)
        for node, prefix in zip(nodes, prefixes, strict=True)
    ]
