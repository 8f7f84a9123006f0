"""Iteration over schemas and JSON values, and JSON Pointers."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any
from urllib.parse import quote, unquote

from ..pointer import Trail, escape, joined
from .keywords import DEFINITIONS, SCHEMA_KEYWORDS, SCHEMA_LIST_KEYWORDS, SCHEMA_MAP_KEYWORDS

# A boolean value of these allows or forbids further members. It is not counted as a schema.
_BOOLEAN = frozenset(
    {"additionalItems", "additionalProperties", "unevaluatedItems", "unevaluatedProperties"}
)
_WITH_SCHEMAS = SCHEMA_KEYWORDS | SCHEMA_LIST_KEYWORDS | SCHEMA_MAP_KEYWORDS
_APPLIED = _WITH_SCHEMAS.difference(DEFINITIONS)


def subschemas(schema: Any) -> Iterator[tuple[str, Any]]:
    """Yield a schema and every schema inside it, each with its JSON Pointer (RFC 6901)."""
    pending: list[tuple[str, Any]] = [("", schema)]
    while pending:
        pointer, node = pending.pop()
        yield pointer, node
        if isinstance(node, dict):
            pending.extend(reversed([*children(pointer, node)]))


def schema_objects(schema: Any) -> Iterator[dict[str, Any]]:
    """Return a schema and every schema inside it, without those that are booleans."""
    return (node for _, node in subschemas(schema) if isinstance(node, dict))


def children(pointer: str, schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the schemas directly inside a schema, with their JSON Pointers."""
    for keyword in schema:
        if keyword in _WITH_SCHEMAS:
            yield from schemas_in(pointer, keyword, schema[keyword])


def schemas_in(pointer: str, keyword: str, value: Any) -> list[tuple[str, Any]]:
    """Return the schemas directly inside the value of one keyword, with their JSON Pointers."""
    if keyword in SCHEMA_MAP_KEYWORDS and isinstance(value, dict):
        return [(f"{pointer}/{keyword}/{escape(name)}", child) for name, child in value.items()]
    if keyword in SCHEMA_LIST_KEYWORDS and isinstance(value, list):
        return [(f"{pointer}/{keyword}/{index}", child) for index, child in enumerate(value)]
    if keyword in SCHEMA_KEYWORDS and not (keyword in _BOOLEAN and isinstance(value, bool)):
        return [(f"{pointer}/{keyword}", value)]
    return []


def reachable(
    schema: Any, *, start: str = "", opaque: Collection[str] = ()
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the subschemas that apply to an instance, each once: nested ones and targets of
    references, without unused definitions, and without those inside the keywords `opaque`."""
    pending = [(start, at_pointer(schema, start))]
    seen: set[int] = set()
    while pending:
        pointer, node = pending.pop()
        if not isinstance(node, dict) or id(node) in seen:
            continue
        seen.add(id(node))
        yield pointer, node
        to = pointer_of_ref(node.get("$ref"))
        if to is not None:
            pending.append((to, at_pointer(schema, to)))
        for keyword in reversed(node):
            if keyword in _APPLIED and keyword not in opaque:
                pending.extend(reversed(schemas_in(pointer, keyword, node[keyword])))


def deep_copy(value: Any) -> Any:
    """A copy of a schema, whose depth is limited (`canonical.MAX_DEPTH`)."""
    if isinstance(value, dict):
        return {name: deep_copy(each) for name, each in value.items()}
    return [deep_copy(each) for each in value] if isinstance(value, list) else value


def values(value: Any) -> Iterator[tuple[str, Any]]:
    """Return every value inside a JSON value, with its JSON Pointer."""
    return ((joined(trail), node) for trail, node in trails(value))


def trails(value: Any) -> Iterator[tuple[Trail, Any]]:
    """Yield every value inside a JSON value, with its trail (see `pointer`)."""
    pending: list[tuple[Trail, Any]] = [(None, value)]
    while pending:
        trail, node = pending.pop()
        yield trail, node
        pending.extend(entries(trail, node))


def entries(trail: Trail, value: Any) -> list[tuple[Trail, Any]]:
    """Return the values directly inside a JSON value, with their trails."""
    if isinstance(value, dict):
        return [((trail, f"/{escape(str(name))}"), each) for name, each in value.items()]
    if isinstance(value, list):
        return [((trail, f"/{at}"), each) for at, each in enumerate(value)]
    return []


def ref_to(pointer: str) -> str:
    """Return the `$ref` for a JSON Pointer."""
    return "#" + quote(pointer, safe="/~!$&'()*+,;=:@")


def pointer_of_ref(ref: object) -> str | None:
    """Return the JSON Pointer in a `$ref` within the document; None for other references."""
    if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
        return None
    return unquote(ref[1:])


def at_pointer(value: Any, pointer: str) -> Any:
    """Return the value at a JSON Pointer. Raise LookupError."""
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list):
            if not (name.isascii() and name.isdigit()):
                raise LookupError(pointer)
            value = value[int(name)]
        elif isinstance(value, dict):
            value = value[name]
        else:
            raise LookupError(pointer)
    return value


References = tuple[list[dict[str, Any]], list[tuple[dict[str, Any], Any]]]
"""All reachable subschemas of a schema, and those that refer to another place than the root, each
with the target."""


def find_references(schema: Any) -> References:
    """Return the references of a schema before it is rewritten: they are kept by identity."""
    nodes = [node for _, node in reachable(schema)]
    pointers = [(node, pointer_of_ref(node.get("$ref"))) for node in nodes]
    return nodes, [(node, at_pointer(schema, at)) for node, at in pointers if at]


def move_targets_to_defs(schema: Any, references: References) -> None:
    """Move the targets of references below `$defs`, in place, under names that need no escapes.
    This works also if their old place no longer exists."""
    nodes, pairs = references
    for node in nodes:
        for keyword in DEFINITIONS:
            node.pop(keyword, None)
    names: dict[int, str] = {}
    definitions: dict[str, Any] = {}
    for node, target in pairs:
        name = names.get(id(target), f"d{len(definitions)}")
        names[id(target)] = name
        definitions[name] = target
        if "$ref" in node:
            node["$ref"] = f"#/$defs/{name}"
    if definitions:
        schema["$defs"] = definitions
