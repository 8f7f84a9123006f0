"""A limit on how often one value is validated by the subschemas of a schema.

References inside `allOf` and similar keywords multiply: forty definitions, each of which combines
the next one twice, make 2^40 paths to the last one, all for the same value. Validators and grammar
engines follow each path.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ..errors import SchemaTooComplex
from .walk import at_pointer, pointer_of_ref, reachable

MAX_PATHS = 100_000
"""Maximum number of paths from a subschema to those that it combines for the same value. Of 6,657
real ones, none has more than 64."""
_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLE = ("not", "if", "then", "else")


def check_paths(schema: Any, *, param: str) -> None:
    """Raise SchemaTooComplex with the pointer of a subschema that combines too many. Each subschema
    is visited once. A schema with a reference to nothing passes: engines refuse it."""
    paths: dict[int, int] = {}
    with suppress(LookupError, ValueError):
        for pointer, node in reachable(schema):
            _count(node, schema, paths)
            if paths[id(node)] > MAX_PATHS:
                raise SchemaTooComplex(
                    f"The references of the schema combine more than {MAX_PATHS:,} subschemas for "
                    "one value. Simplify them.",
                    pointer=pointer,
                    param=param,
                )


def _count(schema: dict[str, Any], root: Any, paths: dict[int, int]) -> None:
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
    found: list[Any] = [schema[each] for each in _SINGLE if each in schema]
    for keyword in _LISTS:
        listed = schema.get(keyword)
        found += listed if isinstance(listed, list) else []
    dependent = schema.get("dependentSchemas")
    found += dependent.values() if isinstance(dependent, dict) else []
    pointer = pointer_of_ref(schema.get("$ref"))
    if pointer is not None:
        found.append(at_pointer(root, pointer))
    return (each for each in found if isinstance(each, dict))
