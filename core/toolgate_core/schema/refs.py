"""References of a schema that is being rewritten.

References are collected by identity before the rewriting, and written to the schema again after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .keywords import DEFINITIONS
from .walk import at_pointer, pointer_of_ref, reachable


@dataclass(frozen=True)
class References:
    nodes: list[dict[str, Any]]
    """All reachable subschemas."""
    pairs: list[tuple[dict[str, Any], Any]]
    """The subschemas that refer to another place than the root, each with the target."""


def find_references(schema: Any) -> References:
    nodes = [node for _, node in reachable(schema)]
    pointers = [(node, pointer_of_ref(node.get("$ref"))) for node in nodes]
    return References(nodes, [(node, at_pointer(schema, at)) for node, at in pointers if at])


def move_targets_to_defs(schema: Any, references: References) -> None:
    """Move the targets of references below `$defs`, in place, under names that need no escapes.
    This works also if their old place no longer exists."""
    for node in references.nodes:
        for keyword in DEFINITIONS:
            node.pop(keyword, None)
    names: dict[int, str] = {}
    definitions: dict[str, Any] = {}
    for node, target in references.pairs:
        name = names.get(id(target), f"d{len(definitions)}")
        names[id(target)] = name
        definitions[name] = target
        if "$ref" in node:
            node["$ref"] = f"#/$defs/{name}"
    if definitions:
        schema["$defs"] = definitions
