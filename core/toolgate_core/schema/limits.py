"""Limits on the size of a schema, checked before any other processing.

They are those of OpenAI for strict tools (platform.openai.com/docs/guides/
structured-outputs, supported schemas): 5,000 properties, 120,000 characters of names and values.
The limit on depth is higher: 64 levels instead of 10. Values of an `enum` are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..errors import SchemaTooComplex
from ..pointer import Trail, joined
from .canonical import canonical_json
from .walk import at_pointer, entries, pointer_of_ref, reachable


@dataclass(frozen=True)
class SchemaLimits:
    """Limits on the schema of one tool's parameters."""

    bytes: int = 1_000_000
    """Size as canonical JSON."""
    depth: int = 64
    """Nesting, in levels of JSON. One level of objects takes two. At most 100, because Python and
    the grammar engines recurse."""
    nodes: int = 50_000
    """JSON values of any type. At most 100,000."""
    properties: int = 5_000
    """Members of all `properties` together."""
    text: int = 120_000
    """Characters in the names of properties and in the strings of `enum` and `const` together."""


SCHEMA_LIMITS = SchemaLimits()


def check_limits(
    parameters: dict[str, Any], limits: SchemaLimits = SCHEMA_LIMITS, *, param: str
) -> None:
    """Raise SchemaTooComplex with the pointer of the place at which a limit is exceeded.

    The check walks the schema once, level by level, without recursion, and stops at the first limit
    that is exceeded. It accepts values that are not valid in JSON (NaN, unpaired surrogates):
    `grammar_key.tool_hash` and the grammar engines refuse them with errors of their own."""
    counts = {"nodes": 0, "properties": 0, "text": 0}
    level: list[tuple[Trail, object]] = [(None, parameters)]
    depth = 0
    while level:
        depth += 1
        if depth > limits.depth:
            raise _too_complex("depth", limits.depth, level[0][0], param)
        below: list[tuple[Trail, object]] = []
        for trail, value in level:
            counts["nodes"] += 1
            _count(value, counts)
            for name in counts:
                if counts[name] > getattr(limits, name):
                    raise _too_complex(name, getattr(limits, name), trail, param)
            below.extend(entries(trail, value))
            if counts["nodes"] + len(below) > limits.nodes:
                raise _too_complex("nodes", limits.nodes, trail, param)
        level = below
    if _size(parameters) > limits.bytes:
        raise _too_complex("bytes", limits.bytes, None, param)
    check_paths(parameters, param=param)


def _size(parameters: dict[str, Any]) -> int:
    """Bytes of canonical JSON. The coder is recursive: call this after the check of the depth."""
    try:
        return len(canonical_json(parameters))
    except ValueError:
        return 0


def _count(value: object, counts: dict[str, int]) -> None:
    if not isinstance(value, dict):
        return
    properties, enum = value.get("properties"), value.get("enum")
    if isinstance(properties, dict):
        counts["properties"] += len(properties)
        counts["text"] += sum(len(name) for name in properties)
    if isinstance(enum, list):
        counts["text"] += sum(len(text) for text in enum if isinstance(text, str))
    if isinstance(value.get("const"), str):
        counts["text"] += len(value["const"])


_NAMES = {
    "bytes": "bytes of canonical JSON",
    "depth": "levels of nesting",
    "nodes": "values",
    "properties": "properties",
    "text": "characters of names and values",
}


def _too_complex(name: str, limit: int, trail: Trail, param: str) -> SchemaTooComplex:
    return SchemaTooComplex(
        f"The schema has more than {limit:,} {_NAMES[name]}. Split the tool, or simplify it.",
        pointer=joined(trail),
        param=param,
    )


MAX_PATHS = 100_000
"""Maximum number of paths from a subschema to those that it combines for the same value. Of 6,657
real ones, none has more than 64."""
_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLE = ("not", "if", "then", "else")


def check_paths(schema: Any, *, param: str) -> None:
    """Raise SchemaTooComplex with the pointer of a subschema that combines too many others for one
    value. Each subschema is visited once. A schema with a reference to nothing passes: engines
    refuse it.

    References inside `allOf` and similar keywords multiply: forty definitions, each of which
    combines the next one twice, make 2^40 paths to the last one, all for the same value. Validators
    and grammar engines follow each path."""
    paths: dict[int, int] = {}
    with suppress(LookupError, ValueError):
        for pointer, node in reachable(schema):
            _count_paths(node, schema, paths)
            if paths[id(node)] > MAX_PATHS:
                raise SchemaTooComplex(
                    f"The references of the schema combine more than {MAX_PATHS:,} subschemas for "
                    "one value. Simplify them.",
                    pointer=pointer,
                    param=param,
                )


def _count_paths(schema: dict[str, Any], root: Any, paths: dict[int, int]) -> None:
    """Add the number of paths from a subschema, and from those that it combines. A reference back
    adds nothing."""
    pending = [schema]
    begun: set[int] = set()
    while pending:
        node = pending[-1]
        if id(node) in begun or id(node) in paths:
            pending.pop()
            if id(node) not in paths:
                count = 1 + sum(paths.get(id(each), 0) for each in _combined(node, root))
                paths[id(node)] = min(count, MAX_PATHS + 1)
            continue
        begun.add(id(node))
        pending.extend(each for each in _combined(node, root) if id(each) not in begun)


def _combined(schema: dict[str, Any], root: Any) -> Iterator[dict[str, Any]]:
    schemas: list[Any] = [schema[each] for each in _SINGLE if each in schema]
    for keyword in _LISTS:
        listed = schema.get(keyword)
        schemas += listed if isinstance(listed, list) else []
    dependent = schema.get("dependentSchemas")
    schemas += dependent.values() if isinstance(dependent, dict) else []
    pointer = pointer_of_ref(schema.get("$ref"))
    if pointer is not None:
        schemas.append(at_pointer(root, pointer))
    return (each for each in schemas if isinstance(each, dict))
