"""Which engine holds a schema, decided from the schema alone, why, and what that leaves open.

Conservative: xgrammar takes only schemas made of the keywords that were measured sound and cheap
there, each with an explicit type; everything else goes to llguidance, which is sound or refuses.
Both are given the schema as `toolgate_core.schema.prepare` makes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from toolgate_core.schema.keywords import ANNOTATIONS
from toolgate_core.schema.prepare import Prepared, anything, loosened, merged, prepared
from toolgate_core.schema.walk import subschemas
from toolgate_core.wire import ResidualKeyword

EngineName = Literal["xgrammar", "llguidance"]

# xgrammar 0.2.8: beyond these sizes its compile time stops being linear in the schema.
MAX_NODES = 2_000
MAX_OPTIONAL_PROPERTIES = 64
MAX_ENUM = 512
MAX_ITEMS = 64

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
XGRAMMAR_KEYWORDS = frozenset({"anyOf", "type"}).union(*_ALLOWED.values())


@dataclass(frozen=True)
class Choice:
    engine: EngineName
    reason: str
    schema: dict[str, Any]
    """What the engine is to hold: it admits all that the tool's schema does."""
    residual: tuple[ResidualKeyword, ...] = ()
    """What the tool's schema says beyond it."""


def choose(parameters: dict[str, Any]) -> Choice:
    """`parameters` is canonical (toolgate_core.grammar_key). Raises SchemaNotEnforceable for what
    is no schema, or one that nothing satisfies."""
    return _choice(prepared(parameters))


def choices(parameters: dict[str, Any]) -> Iterator[Choice]:
    """What to try in turn, each leaving more open, when an engine refuses what it should hold."""
    first = prepared(parameters)
    yield _choice(first)
    if not first.residual and (form := merged(parameters)) is not None:
        yield _choice(form)
    yield _choice(loosened(parameters))
    yield _choice(anything(parameters))


def chosen(schema: dict[str, Any], residual: tuple[ResidualKeyword, ...]) -> Choice:
    """For a schema that was prepared before, elsewhere."""
    engine, reason = _engine(schema)
    return Choice(engine, reason, schema, residual)


def _choice(made: Prepared) -> Choice:
    residual = tuple(ResidualKeyword(pointer=o.pointer, keyword=o.keyword) for o in made.residual)
    return chosen(made.schema, residual)


def _engine(schema: dict[str, Any]) -> tuple[EngineName, str]:
    for count, (pointer, node) in enumerate(subschemas(schema)):
        if count >= MAX_NODES:
            return "llguidance", f"more than {MAX_NODES} subschemas"
        objection = _objection(node)
        if objection:
            return "llguidance", f"{objection} at {pointer or '/'}"
    return "xgrammar", "every keyword is in its sound subset"


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
