"""Grammar keys: what two requests must share to share a compiled grammar.

key = sha256(tool name + canonical parameters) : dialect : tokenizer fingerprint : engine format.
The parameters are made canonical first, so that what does not alter the grammar does not alter the
key: annotations, the draft, the order of keywords, the spelling of numbers. The order of
`properties` stays, since the engines write the members of an object in that order.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

from .errors import InvalidTools, SchemaTooComplex
from .schema.document import normalised
from .schema.keywords import (
    ANNOTATIONS,
    SCHEMA_KEYWORDS,
    SCHEMA_LIST_KEYWORDS,
    SCHEMA_MAP_KEYWORDS,
)

MAX_DEPTH = 100
"""Levels of nesting a schema may have. Beyond it, Python's own JSON coder would overflow."""
MAX_NODES = 100_000
"""Values that a schema may have, annotations among them, to be made canonical at all, which takes
some microseconds for each. limits.py has the limit on what is left of it then."""

CONTENT = ""
"""The name under which a schema of the content stands among those of tools: none has this one."""

TEXT = "x-toolgate-text"
"""Beside no other keyword in what content is held to: a text that is not JSON, as
{"choice": [text, …]} or {"regex": pattern}."""

NOTHING_REQUIRED: tuple[str, list[str]] = ("required", [])
"""The same as leaving the keyword out (JSON Schema validation §6.5.3)."""

EMPTY_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {},
    "additionalProperties": False,
}
"""OpenAI: omitting `parameters` defines a function without any (API reference, chat, `tools`)."""


def canonical_parameters(parameters: object, *, param: str = "parameters") -> dict[str, Any]:
    """A tool's `parameters` as a schema of JSON Schema 2020-12, whatever draft they are written in,
    with all that cannot alter their grammar removed.

    Raises InvalidTools, naming `param`, when they are no JSON Schema of an object, and
    SchemaNotEnforceable for a reference to what is not in them, or too many values.
    """
    if parameters is None:
        return dict(EMPTY_PARAMETERS)
    canonical = canonical_schema(parameters, param=param)
    kind = canonical.get("type", "object")
    if kind not in ("object", ["object"]):
        raise InvalidTools(
            f'{param} must describe an object: give it "type": "object", not {kind!r}.',
            param=param,
        )
    return canonical | {"type": "object"}


def canonical_schema(schema: object, *, param: str) -> dict[str, Any]:
    """A schema of any value, made canonical. Raises as `canonical_parameters` does."""
    if not isinstance(schema, dict):
        raise InvalidTools(f"{param} must be a JSON Schema object.", param=param)
    _check_extent(schema, param)
    canonical = _schema(normalised(schema, param=param))
    assert isinstance(canonical, dict)
    return canonical


def tool_hash(name: str, parameters: dict[str, Any]) -> str:
    """SHA-256 (hex) of a tool's name and canonical parameters.

    Raises InvalidTools for what JSON cannot spell: NaN, infinities, integers past 4,300 digits.
    """
    try:
        text = canonical_json([name, parameters])
    except ValueError as error:
        raise InvalidTools(f"The parameters of {name!r} are not JSON: {error}.") from error
    return hashlib.sha256(text.encode()).hexdigest()


def grammar_key(tool_hash: str, *, dialect: str, tokenizer: str, grammar_format: str) -> str:
    return f"{tool_hash}:{dialect}:{tokenizer}:{grammar_format}"


def canonical_json(value: object) -> str:
    """JSON text that is equal for equal values. The order of members is the value's own."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def _schema(schema: object) -> Any:
    if not isinstance(schema, dict):
        return schema if isinstance(schema, bool) else _data(schema)
    kept = sorted((str(k), v) for k, v in schema.items() if k not in ANNOTATIONS and k != TEXT)
    return {key: _keyword(key, value) for key, value in kept if (key, value) != NOTHING_REQUIRED}


def _keyword(key: str, value: object) -> Any:
    if key in SCHEMA_MAP_KEYWORDS and isinstance(value, dict):
        # `dependencies` maps to schemas or to lists of names; a list of names is data.
        return {str(k): _schema(v) for k, v in value.items()}
    if key in SCHEMA_LIST_KEYWORDS and isinstance(value, list):
        return [_schema(v) for v in value]
    if key in SCHEMA_KEYWORDS:
        return _schema(value)
    if key == "required" and isinstance(value, list) and all(isinstance(v, str) for v in value):
        return sorted(set(value))
    return _data(value)


def _data(value: object) -> Any:
    """Plain data, numbers spelt one way: 1.0 is the integer 1 (JSON Schema core §4.2.2)."""
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {str(k): _data(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_data(v) for v in value]
    return value


def _check_extent(value: object, param: str) -> None:
    """Measure without recursion, before anything recursive touches what a client sent."""
    level: list[object] = [value]
    nodes = 1
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return
        nodes += len(level)
        if nodes > MAX_NODES:
            raise SchemaTooComplex(
                f"{param} has more than {MAX_NODES:,} values; split the tool, or shorten its enums "
                "and examples.",
                pointer="",
                param=param,
            )
    raise InvalidTools(f"{param} is nested deeper than {MAX_DEPTH} levels.", param=param)


def _children(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list) else []
