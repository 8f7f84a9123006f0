"""Schemas that have taken servers down, or would: what each is, and what must become of it."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def of(**properties: Any) -> Schema:
    return {"type": "object", "properties": properties}


def nested(levels: int) -> Schema:
    schema: Schema = {"type": "null"}
    for _ in range(levels):
        schema = of(a=schema)
    return schema


def _any_of(levels: int) -> Schema:
    schema: Schema = {"type": "string"}
    for _ in range(levels):
        schema = {"anyOf": [schema, schema]}
    return schema


_WIDE = {f"p{i}": {"type": "integer", "minimum": -12345678, "maximum": 98765432} for i in range(60)}

PROCESSOR: Schema = of(**{f"o{i}": of(**_WIDE) for i in range(30)})
"""Four seconds of xgrammar, within every limit on schemas: half a million paths through optional
members."""

MEMORY: Schema = of(
    **{
        f"n{i}": {"type": "number", "minimum": -1.23456789012345e300, "maximum": 1.98765432109e300}
        for i in range(60)
    }
)
"""Bounds that xgrammar unrolls digit by digit, 300 of them."""

WORKS: dict[str, Schema] = {
    "maxLength 100,000": of(a={"type": "string", "maxLength": 100_000}),
    "pattern with big counts": of(a={"type": "string", "pattern": "^(a{1,1000}){1,1000}$"}),
    "1,000 optional properties": of(**{f"p{i}": {"type": "string"} for i in range(1000)}),
    "1,000 enum values": of(a={"type": "string", "enum": [f"value-{i}" for i in range(1000)]}),
    "anyOf nested 2^9": of(a=_any_of(9)),
    "64 levels": nested(31),
    "self-reference that ends": of(a={"$ref": "#"}),
}

REFUSED: dict[str, tuple[Schema, str]] = {
    "remote $ref": (of(a={"$ref": "https://example.com/s.json"}), "/properties/a/$ref"),
    "$ref to a file": (of(a={"$ref": "file:///etc/passwd"}), "/properties/a/$ref"),
    "$ref to itself": (of(a={"$ref": "#/properties/a"}), "/properties/a"),
    "endless required recursion": (of(a={"$ref": "#"}) | {"required": ["a"]}, ""),
    "endless array": (
        of(a={"type": "array", "minItems": 1, "items": {"$ref": "#/properties/a"}}),
        "/properties/a",
    ),
    "lone surrogate, value": (of(a={"type": "string", "enum": ["\ud800"]}), ""),
    "lone surrogate, name": (of(**{"\udc00": {"type": "string"}}), ""),
    "200 overlapping patternProperties": (
        of(
            a={
                "type": "object",
                "patternProperties": {f"^x{i}.*$": {"type": "string"} for i in range(200)},
            }
        ),
        "/properties/a/patternProperties",
    ),
    "an integer of 400 digits": (of(a={"type": "integer", "maximum": 10**400}), ""),
    "10,000 items at least": (
        of(
            a={
                "type": "array",
                "items": {"type": "string"},
                "minItems": 10_000,
                "maxItems": 100_000,
            }
        ),
        "",
    ),
}

OVER_LIMITS: dict[str, Schema] = {
    "1 MB": of(a={"type": "string", "pattern": "a" * 1_000_000}),
    "20,000 levels": nested(10_000),
    "100,000 enum values": of(a={"enum": list(range(100_000))}),
    "10,000 properties": of(**{f"p{i}": {"type": "null"} for i in range(10_000)}),
    "long names": of(**{"n" * 1000 + str(i): {"type": "null"} for i in range(200)}),
}
