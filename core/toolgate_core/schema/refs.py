"""References while a schema is changed: held by identity, and written down again afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .keywords import DEFINITIONS
from .walk import at_pointer, pointed, reachable


@dataclass(frozen=True)
class Links:
    nodes: list[dict[str, Any]]
    """Every subschema that comes to bear."""
    pairs: list[tuple[dict[str, Any], Any]]
    """Those of them that refer to another place than the root, and what is there."""


def links(schema: Any) -> Links:
    nodes = [node for _, node in reachable(schema)]
    pointers = [(node, pointed(node.get("$ref"))) for node in nodes]
    return Links(nodes, [(node, at_pointer(schema, at)) for node, at in pointers if at])


def gathered(schema: Any, kept: Links) -> None:
    """Put what is referred to below `$defs`, in place, under names that need no escapes: whatever
    has become of the place where it stood."""
    for node in kept.nodes:
        for keyword in DEFINITIONS:
            node.pop(keyword, None)
    names: dict[int, str] = {}
    definitions: dict[str, Any] = {}
    for node, target in kept.pairs:
        name = names.get(id(target), f"d{len(definitions)}")
        names[id(target)] = name
        definitions[name] = target
        if "$ref" in node:
            node["$ref"] = f"#/$defs/{name}"
    if definitions:
        schema["$defs"] = definitions
