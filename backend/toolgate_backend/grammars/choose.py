"""Which engine holds a schema, decided from the schema alone, and why.

Conservative: xgrammar takes only schemas made of the keywords that were measured sound and cheap
there, each with an explicit type; everything else goes to llguidance, which is sound or refuses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from toolgate_core.keys import (
    ANNOTATIONS,
    SCHEMA_KEYWORDS,
    SCHEMA_LIST_KEYWORDS,
    SCHEMA_MAP_KEYWORDS,
)
from toolgate_core.pointer import escape

EngineName = Literal["xgrammar", "llguidance"]

# xgrammar 0.2.8: beyond these sizes its compile time stops being linear in the schema.
MAX_NODES = 2_000
MAX_OPTIONAL_PROPERTIES = 64
MAX_ENUM = 512
MAX_ITEMS = 64

# `false` or `true` here says whether there may be more, it describes no value.
_WHETHER = frozenset(
    {"additionalItems", "additionalProperties", "unevaluatedItems", "unevaluatedProperties"}
)
_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_ALLOWED: dict[str, frozenset[str]] = {
    "object": frozenset({"properties", "required", "additionalProperties"}),
    "array": frozenset({"items", "minItems", "maxItems"}),
    "string": frozenset({"enum", "const"}),
    "integer": _BOUNDS | {"enum", "const"},
    "number": _BOUNDS,
    "boolean": frozenset(),
    "null": frozenset(),
}


@dataclass(frozen=True)
class Choice:
    engine: EngineName
    reason: str


def choose(parameters: dict[str, Any]) -> Choice:
    """`parameters` is canonical (toolgate_core.keys)."""
    for count, (pointer, schema) in enumerate(subschemas(parameters)):
        if count >= MAX_NODES:
            return Choice("llguidance", f"more than {MAX_NODES} subschemas")
        objection = _objection(schema)
        if objection:
            return Choice("llguidance", f"{objection} at {pointer or '/'}")
    return Choice("xgrammar", "every keyword is in its sound subset")


def subschemas(parameters: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every schema inside a schema, itself first, with its JSON Pointer (RFC 6901)."""
    pending: list[tuple[str, Any]] = [("", parameters)]
    while pending:
        pointer, schema = pending.pop()
        yield pointer, schema
        if isinstance(schema, dict):
            pending.extend(reversed([*_children(pointer, schema)]))


def find_keyword(parameters: dict[str, Any], keyword: str, value: str | None = None) -> str | None:
    """JSON Pointer of the first occurrence of `keyword` as a keyword (not as a property's name),
    and with this value if one is given."""
    for pointer, schema in subschemas(parameters):
        if isinstance(schema, dict) and keyword in schema and value in (None, schema[keyword]):
            return f"{pointer}/{escape(keyword)}"
    return None


def _children(pointer: str, schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for keyword, value in schema.items():
        at = f"{pointer}/{escape(keyword)}"
        if keyword in SCHEMA_MAP_KEYWORDS and isinstance(value, dict):
            yield from ((f"{at}/{escape(name)}", child) for name, child in value.items())
        elif keyword in SCHEMA_LIST_KEYWORDS and isinstance(value, list):
            yield from ((f"{at}/{index}", child) for index, child in enumerate(value))
        elif keyword in SCHEMA_KEYWORDS and not (keyword in _WHETHER and isinstance(value, bool)):
            yield at, value


def _objection(schema: Any) -> str | None:
    """What keeps this subschema (without those inside it) out of xgrammar's subset, if anything."""
    if not isinstance(schema, dict):
        return "a boolean schema"
    keywords = schema.keys() - ANNOTATIONS
    if keywords == {"anyOf"}:
        return None
    kind = schema.get("type")
    if not isinstance(kind, str):
        return "no single type"
    beyond = keywords - {"type"} - _ALLOWED.get(kind, frozenset())
    if beyond:
        return f"{min(beyond)!r} beside type {kind!r}"
    if kind == "object":
        return _object(schema)
    if kind == "array":
        return _array(schema)
    return _bounds(schema) or _enum(schema)


def _object(schema: dict[str, Any]) -> str | None:
    properties = schema.get("properties")
    if not properties and schema.get("additionalProperties") is not False:
        return "an object of any members"
    if schema.get("additionalProperties", False) is not False:
        return "additional properties"
    declared, required = set(properties or ()), set(schema.get("required", ()))
    if not required <= declared:
        return "a required property that is not declared"
    if len(declared - required) > MAX_OPTIONAL_PROPERTIES:
        return f"more than {MAX_OPTIONAL_PROPERTIES} optional properties"
    return None


def _array(schema: dict[str, Any]) -> str | None:
    if not isinstance(schema.get("items"), dict):
        return "an array of anything"
    counts = [schema[key] for key in ("minItems", "maxItems") if key in schema]
    if any(type(count) is not int or count > MAX_ITEMS for count in counts):
        return f"items counted beyond {MAX_ITEMS}"
    return None


def _bounds(schema: dict[str, Any]) -> str | None:
    kinds = (int,) if schema["type"] == "integer" else (int, float)
    if any(type(schema[key]) not in kinds for key in _BOUNDS & schema.keys()):
        return "a bound that is not of its type"
    return None


def _enum(schema: dict[str, Any]) -> str | None:
    """xgrammar takes an enum as it is and ignores the type beside it: they must agree."""
    if "enum" in schema and "const" in schema:
        return "enum beside const"
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if values is None:
        return None
    if len(schema) > 2 and schema["type"] != "string":
        return "enum beside bounds"
    fitting = str if schema["type"] == "string" else int
    if not values or any(type(value) is not fitting for value in values):
        return "an enum whose values are not all of its type"
    return f"more than {MAX_ENUM} enum values" if len(values) > MAX_ENUM else None
