"""The canonical form of a schema. Equal forms have the same grammar.

It removes differences that do not change the grammar: annotations, the draft, the order of
keywords, the notation of numbers. It keeps the order of `properties`, since the engines write the
members of an object in that order.
"""

from __future__ import annotations

import json
import math
from typing import Any

from ..errors import InvalidTools, SchemaTooComplex
from .corrections import corrected
from .document import normalise
from .keywords import ANNOTATIONS, SCHEMA_KEYWORDS, SCHEMA_LIST_KEYWORDS, SCHEMA_MAP_KEYWORDS
from .tags import require_tags

MAX_DEPTH = 100
"""Maximum nesting of a schema, in levels. Python's JSON coder would overflow beyond it."""
MAX_NODES = 100_000
"""Maximum number of values in a schema, including annotations. The canonical form takes some
microseconds for each. schema/limits.py limits the number of values in the canonical form."""
MAX_POINTERS = 10_000_000
"""Maximum length of the JSON Pointers of all values in a schema together, in characters. They
repeat the names of members around a value, so one long name can multiply its size. Of 6,657
real schemas, none has more than 83,095."""

TEXT = "x-toolgate-text"
"""The only keyword of the schema of content that is not JSON. Its value is {"choice": [text, …]} or
{"regex": pattern}."""

GRAMMAR = "x-toolgate-grammar"
"""The keyword of the grammar that the input of a custom tool has to match. Its value is
{"syntax": "lark" or "regex", "definition": text}."""

OWN_KEYWORDS = frozenset({TEXT, GRAMMAR})
"""They are removed from the schemas of clients."""

EMPTY_REQUIRED: tuple[str, list[str]] = ("required", [])
"""Equivalent to no `required` (JSON Schema validation §6.5.3)."""

EMPTY_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {},
    "additionalProperties": False,
}
"""Omitting `parameters` defines a function without any (OpenAI API reference, chat, `tools`)."""


def canonical_parameters(parameters: object, *, param: str = "parameters") -> dict[str, Any]:
    """Return the canonical form of a tool's `parameters`: JSON Schema 2020-12, without anything
    that does not change the grammar.

    Raise InvalidTools, which names `param`, if they are not a JSON Schema of an object. Raise
    SchemaNotEnforceable if a reference leads out of them, or if they have too many values."""
    if parameters is None:
        return dict(EMPTY_PARAMETERS)
    canonical = canonical_schema(parameters, param=param)
    kind = canonical.get("type", "object")
    if kind not in ("object", ["object"]):
        raise InvalidTools(
            f'{param} must be the schema of an object. Set "type": "object" instead of {kind!r}.',
            param=param,
        )
    return canonical | {"type": "object"}


def canonical_schema(schema: object, *, param: str) -> dict[str, Any]:
    """Return the canonical form of a schema of any value, as it was meant (`corrections`). Raise as
    `canonical_parameters` does."""
    if not isinstance(schema, dict):
        raise InvalidTools(f"{param} must be a JSON Schema object.", param=param)
    _check_extent(schema, param)
    normal = normalise(corrected(schema), param=param)
    require_tags(normal)
    canonical = _schema(normal)
    assert isinstance(canonical, dict)
    return canonical


def canonical_json(value: object) -> str:
    """JSON text that is equal for equal values. It keeps the order of members."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def _schema(schema: object) -> Any:
    if not isinstance(schema, dict):
        return schema if isinstance(schema, bool) else _data(schema)
    kept = sorted((str(k), v) for k, v in schema.items() if k not in ANNOTATIONS | OWN_KEYWORDS)
    return {key: _keyword(key, value) for key, value in kept if (key, value) != EMPTY_REQUIRED}


def _keyword(key: str, value: object) -> Any:
    if key in SCHEMA_MAP_KEYWORDS and isinstance(value, dict):
        # `dependencies` has schemas or lists of names as values. A list of names is plain data.
        return {str(k): _schema(v) for k, v in value.items()}
    if key in SCHEMA_LIST_KEYWORDS and isinstance(value, list):
        return [_schema(v) for v in value]
    if key in SCHEMA_KEYWORDS:
        return _schema(value)
    if key == "required" and isinstance(value, list) and all(isinstance(v, str) for v in value):
        return sorted(set(value))
    return _data(value)


def _data(value: object) -> Any:
    """Plain data with one notation of numbers: 1.0 is the integer 1 (JSON Schema core §4.2.2)."""
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {str(k): _data(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_data(v) for v in value]
    return value


def _check_extent(value: object, param: str) -> None:
    """Check depth, number of values and length of their pointers without recursion, before
    recursive functions run."""
    level: list[tuple[int, object]] = [(0, value)]
    nodes, pointers = 1, 0
    for _ in range(MAX_DEPTH):
        level = [child for length, parent in level for child in _children(length, parent)]
        if not level:
            return
        nodes += len(level)
        pointers += sum(length for length, _ in level)
        if nodes > MAX_NODES:
            raise SchemaTooComplex(
                f"{param} has more than {MAX_NODES:,} values. Split the tool, or shorten its enums "
                "and examples.",
                pointer="",
                param=param,
            )
        if pointers > MAX_POINTERS:
            raise SchemaTooComplex(
                f"{param} has long names around many values. Shorten the names, or split the tool.",
                pointer="",
                param=param,
            )
    raise InvalidTools(
        f"{param} is nested deeper than {MAX_DEPTH} levels. Simplify it.", param=param
    )


def _children(length: int, value: object) -> list[tuple[int, object]]:
    """Return the values directly inside a value, each with the length of its JSON Pointer."""
    if isinstance(value, dict):
        return [(length + 1 + len(str(name)), child) for name, child in value.items()]
    if isinstance(value, list):
        return [(length + 2, child) for child in value]
    return []
