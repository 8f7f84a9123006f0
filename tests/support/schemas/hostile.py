"""Small schemas of which a walk could take time or memory without bound.

Each is built from a size, at which a walk without a memo or a budget does not end: references that
double at each level, that lead to each other in every order, long chains of them, and names and
patterns that multiply. All but a few are within the limits on schemas (`schema.limits`).
"""

from collections.abc import Callable
from typing import Any

Schema = dict[str, Any]
LEVELS = 40
"""2^40 steps for a walk that follows every reference."""


def ref(name: object) -> Schema:
    return {"$ref": f"#/$defs/d{name}"}


def _document(definitions: list[Schema], **root: Any) -> Schema:
    named = {f"d{at}": each for at, each in enumerate(definitions)}
    return {"type": "object", "$defs": named} | (root or ref(0))


def levels(of: Callable[[Schema], Schema], count: int = LEVELS) -> Schema:
    """Definitions, each of which refers to the next one as `of` writes it."""
    return _document([*(of(ref(at + 1)) for at in range(count)), {"type": "string"}])


def argument(schema: Schema) -> Schema:
    """An object with a required member, below which the schema's definitions are used."""
    definitions = schema["$defs"]
    rest = {name: value for name, value in schema.items() if name not in ("$defs", "type")}
    return {"$defs": definitions, **_object(a=rest)}


def _object(**properties: Any) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _twice(keyword: str) -> Callable[[Schema], Schema]:
    return lambda to: {keyword: [dict(to), dict(to)]}


DOUBLING: dict[str, Callable[[Schema], Schema]] = {
    "properties": lambda to: _object(a=to, b=dict(to)),
    "optional properties": lambda to: {"type": "object", "properties": {"a": to, "b": dict(to)}},
    "allOf": _twice("allOf"),
    "anyOf": _twice("anyOf"),
    "oneOf": _twice("oneOf"),
    "prefixItems": lambda to: {
        "type": "array",
        "prefixItems": [to, dict(to)],
        "minItems": 2,
        "maxItems": 2,
    },
    "items and contains": lambda to: {
        "type": "array",
        "items": to,
        "contains": dict(to),
        "minItems": 1,
        "maxItems": 2,
    },
    "patternProperties": lambda to: {
        "type": "object",
        "patternProperties": {"^a": to, "b$": dict(to)},
        "additionalProperties": False,
    },
    "additionalProperties": lambda to: {
        "type": "object",
        "properties": {"a": to},
        "required": ["a"],
        "additionalProperties": dict(to),
    },
    "not": lambda to: {"allOf": [{"not": to}, {"not": dict(to)}]},
    "if": lambda to: {"if": to, "then": dict(to), "else": dict(to)},
    "dependentSchemas": lambda to: {
        "type": "object",
        "properties": {"a": to},
        "dependentSchemas": {"a": _object(b=dict(to))},
    },
    "unevaluatedProperties": lambda to: {
        "allOf": [_object(a=to), _object(b=dict(to))],
        "unevaluatedProperties": False,
    },
    "enum beside allOf": lambda to: {
        "type": "object",
        "properties": {"kind": {"enum": ["a", "b", "c"]}, "a": to},
        "allOf": [{"properties": {"a": dict(to)}}],
    },
}
"""By keyword: a definition that refers twice or more to the next one."""


def complete(of: Callable[[list[Schema]], Schema], count: int = 12) -> Schema:
    """Definitions, each of which refers to all of them: as many paths as orders of them."""
    return _document([of([ref(at) for at in range(count)]) for _ in range(count)])


def _chain(count: int) -> Schema:
    return _document([*(ref(at + 1) for at in range(count)), {"type": "string"}])


def _nested(count: int) -> Schema:
    schema: Schema = {"type": "string"}
    for _ in range(count):
        schema = _object(a=schema)
    return schema


def identifiers(levels: int, width: int, length: int) -> Schema:
    """Identifiers that are relative to a long one: their URIs repeat it."""
    members = {f"p{at}": {"$id": f"x{at}", "type": "string"} for at in range(width)}
    inner: Schema = {"type": "object", "properties": members}
    for _ in range(levels):
        inner = _object(a=inner) | {"$id": f"{'n' * length}/"}
    return {"type": "object", "properties": {"a": inner}, "$id": "http://example.com/"}


def long_name(length: int, members: int) -> Schema:
    """A name of which each pointer below it has a copy."""
    inside = {f"p{at}": {"type": "null"} for at in range(members)}
    return _object(**{"n" * length: {"type": "object", "properties": inside}})


def endless_validation(levels: int = LEVELS) -> tuple[Schema, dict[str, Any]]:
    """A schema and a value that a validator would not finish. Each definition checks the member
    twice, and the number of checks doubles with each level of the value, not of the schema."""
    twice: Callable[[Schema], Schema] = lambda to: {  # noqa: E731
        "allOf": [{"properties": {"a": to}}, {"properties": {"a": dict(to)}}]
    }
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return _document([*(twice(ref(at + 1)) for at in range(levels)), {"maxProperties": 3}]), value


HOSTILE: dict[str, Schema] = {
    **{f"doubling {name}": argument(levels(of)) for name, of in DOUBLING.items()},
    **{f"doubling {name} at the root": levels(of) for name, of in DOUBLING.items()},
    "complete anyOf": argument(complete(lambda to: {"anyOf": [*to, {"type": "null"}]})),
    "complete allOf": argument(complete(lambda to: {"allOf": to})),
    "complete anyOf at the root": complete(lambda to: {"anyOf": [*to, _object(x={})]}),
    "complete properties": argument(
        complete(
            lambda to: _object(**{f"p{at}": each for at, each in enumerate(to)}) | {"required": []}
        )
    ),
    "complete required properties": argument(
        complete(lambda to: _object(**{f"p{at}": each for at, each in enumerate(to)}))
    ),
    # Longer than Python's limit on recursion.
    "chain of references": argument(_chain(1_200)),
    "chain of references at the root": _chain(1_200),
    "cycle of references": argument(_document([ref((at + 1) % 500) for at in range(500)])),
    "deep": _nested(31),
    "wide anyOf of references": argument(
        _document(
            [{"anyOf": [ref(1 + at % 40) for at in range(800)]}]
            + [_object(**{f"p{at}": ref(1 + (at + 1) % 40)}) for at in range(40)]
        )
    ),
    "wide properties": _object(**{f"p{at}": {"type": "string"} for at in range(2_000)}),
    "wide allOf": _object(
        a={"allOf": [_object(**{f"p{at}": {"type": "string"}}) for at in range(1_000)]}
    ),
    "crossed oneOf": _object(
        a={
            "allOf": [
                {"oneOf": [_object(**{f"p{at}": {"const": one}}) for one in range(4)]}
                for at in range(12)
            ]
        }
    ),
    "nested identifiers": identifiers(8, 1_500, 12_000),
    "long names": long_name(100_000, 1_000),
    "backtracking name": _object(**{"a" * 60 + "!": {"type": "string"}})
    | {"patternProperties": {"^(a|aa)+$": {"type": "string"}, "^(a+)+b?$": {"type": "string"}}},
    "a count of 5,000 digits": _object(a={"type": "string", "pattern": "a{" + "9" * 5_000 + "}"}),
    "nested counts": _object(a={"type": "string", "pattern": "((((a{60}){60}){60}){60}){60}"}),
    "many counts": _object(a={"type": "string", "pattern": "a{99999999999}" * 50_000}),
    "a wide class": _object(
        a={"type": "string", "pattern": "[" + "".join(map(chr, range(0x4E00, 0x9000))) * 4 + "]"}
    ),
    "wide negation": _object(
        a={"not": {"anyOf": [_object(**{f"p{at}": {"const": at}}) for at in range(200)]}}
    ),
    "many counted items": _object(
        a={
            "type": "array",
            "items": {"type": "array", "items": {"enum": [*range(20)]}, "uniqueItems": True},
            "contains": {"minItems": 3},
            "minContains": 5,
            "maxItems": 64,
            "uniqueItems": True,
        }
    ),
}
"""Schemas of a tool's parameters, by what is in them."""
