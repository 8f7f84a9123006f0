"""Choice of the engine for a schema, with its reason and the keywords that remain unenforced.

The choice depends on the schema alone and is conservative. xgrammar gets only schemas with explicit
types whose keywords were measured to be sound and cheap there. All others go to llguidance, which
is sound or refuses. Both engines get the schema as rewritten by
`toolgate_core.schema.preparation.prepare`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from toolgate_core.schema.keywords import ANNOTATIONS
from toolgate_core.schema.preparation import prepare as preparation
from toolgate_core.schema.preparation.engine_form import BOUNDS
from toolgate_core.schema.walk import subschemas
from toolgate_core.wire import ResidualKeyword

EngineName = Literal["xgrammar", "llguidance"]

# xgrammar 0.2.8: above these sizes, its compile time is no longer linear in the schema.
MAX_NODES = 2_000
MAX_OPTIONAL_PROPERTIES = 64
MAX_ENUM = 512
MAX_ITEMS = 64
MAX_INTEGER = 2**63 - 1

_ALLOWED: dict[str, frozenset[str]] = {
    "object": frozenset({"properties", "required", "additionalProperties"}),
    "array": frozenset({"items", "minItems", "maxItems"}),
    "string": frozenset({"enum", "const"}),
    "integer": BOUNDS | {"enum", "const"},
    "number": BOUNDS,
    "boolean": frozenset(),
    "null": frozenset(),
}


NOT_XGRAMMAR = "x-not-xgrammar"
"""A keyword of ours beside a schema: the reason why xgrammar cannot compile it."""


@dataclass(frozen=True)
class Choice:
    engine: EngineName
    reason: str
    schema: dict[str, Any]
    """The schema for the engine. It accepts every value that the tool's schema accepts."""
    residual: tuple[ResidualKeyword, ...] = ()
    """The keywords of the tool's schema that `schema` does not enforce."""

    def without_xgrammar(self, reason: str) -> Choice:
        """Return the choice of llguidance, also for those who get the schema of this choice."""
        return make_choice({**self.schema, NOT_XGRAMMAR: reason}, self.residual)

    def beyond_json(self, residual: Iterable[ResidualKeyword]) -> Choice:
        """Return this choice for arguments that are not JSON, whose grammar does not enforce
        `residual` either."""
        left = tuple(dict.fromkeys((*self.residual, *residual)))
        return Choice("llguidance", "the arguments are not JSON", self.schema, left)


def fallback_choices(
    parameters: dict[str, Any], compiles: Callable[[dict[str, Any]], bool]
) -> Iterator[Choice]:
    """Yield the choices for a canonical schema (toolgate_core.schema.canonical), to try in turn if
    an engine refuses one. Each enforces less than the previous. `compiles`: whether llguidance
    compiles a prepared schema. Raise SchemaNotEnforceable if it is not a schema, or if no value
    satisfies it."""
    first = preparation.prepare(parameters)
    yield _choice(first)
    if not first.residual and (form := preparation.prepare_canonical(parameters)) is not None:
        yield _choice(form)
    yield _choice(preparation.prepare_compilable(parameters, compiles))
    yield _choice(preparation.prepare_type_only(parameters))


def make_choice(schema: dict[str, Any], residual: tuple[ResidualKeyword, ...]) -> Choice:
    """Return the choice for a schema that has already been prepared."""
    engine, reason = _engine(schema)
    return Choice(engine, reason, schema, residual)


def _choice(prepared: preparation.PreparedSchema) -> Choice:
    residual = tuple(
        ResidualKeyword(pointer=o.pointer, keyword=o.keyword) for o in prepared.residual
    )
    return make_choice(prepared.schema, residual)


def _engine(schema: dict[str, Any]) -> tuple[EngineName, str]:
    if NOT_XGRAMMAR in schema:
        return "llguidance", str(schema[NOT_XGRAMMAR])
    for count, (pointer, node) in enumerate(subschemas(schema)):
        if count >= MAX_NODES:
            return "llguidance", f"more than {MAX_NODES} subschemas"
        objection = _objection(node)
        if objection:
            return "llguidance", f"{objection} at {pointer or 'the root'}"
    return "xgrammar", "it enforces every keyword of the schema"


def _objection(schema: Any) -> str | None:
    """Return the reason why xgrammar cannot enforce this subschema, not considering those inside
    it; None if it can."""
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
        return f"{min(beyond)!r} with type {kind!r}"
    if kind == "object":
        return _object(schema)
    if kind == "array":
        return _array(schema)
    return _bounds(schema) or _enum(schema)


def _object(schema: dict[str, Any]) -> str | None:
    properties = schema.get("properties")
    if not properties and schema.get("additionalProperties") is not False:
        return "an object without declared properties"
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
        return "an array without an item schema"
    counts = [schema[key] for key in ("minItems", "maxItems") if key in schema]
    if any(type(count) is not int or count > MAX_ITEMS for count in counts):
        return f"an item count above {MAX_ITEMS}"
    return None


def _bounds(schema: dict[str, Any]) -> str | None:
    kinds = (int,) if schema["type"] == "integer" else (int, float)
    if any(type(schema[key]) not in kinds for key in BOUNDS & schema.keys()):
        return "a bound of another type"
    if not all(abs(schema[key]) < MAX_INTEGER for key in BOUNDS & schema.keys()):
        return "a bound of more than 64 bits"
    return None


def _enum(schema: dict[str, Any]) -> str | None:
    """xgrammar enforces an enum without its type, so the values must match the type."""
    if "enum" in schema and "const" in schema:
        return "enum with const"
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if values is None:
        return None
    if len(schema) > 2 and schema["type"] != "string":
        return "enum with bounds"
    fitting = str if schema["type"] == "string" else int
    if not values or any(type(value) is not fitting for value in values):
        return "an enum with values of another type"
    if fitting is int and not all(abs(value) < MAX_INTEGER for value in values):
        return "an enum with integers of more than 64 bits"
    return f"more than {MAX_ENUM} enum values" if len(values) > MAX_ENUM else None
