"""Schemas that have taken servers down, or would: what each is, and what must become of it."""

from .hostile import HOSTILE


def of(**properties):
    return {"type": "object", "properties": properties}


def nested(levels):
    schema = {"type": "null"}
    for _ in range(levels):
        schema = of(a=schema)
    return schema


def _any_of(levels):
    schema = {"type": "string"}
    for _ in range(levels):
        schema = {"anyOf": [schema, schema]}
    return schema


_WIDE = {f"p{i}": {"type": "integer", "minimum": -12345678, "maximum": 98765432} for i in range(60)}

PROCESSOR = of(**{f"o{i}": of(**_WIDE) for i in range(30)})
"""Four seconds of xgrammar, within every limit on schemas: half a million paths through optional
members."""


def _deep(first):
    """Objects in objects whose bounds are all different, so that no two share a grammar."""
    bounds = {
        f"p{i}": {"type": "integer", "minimum": first - i, "maximum": 98765432} for i in range(40)
    }
    return of(**bounds)


MEMORY = of(
    **{
        f"q{i}": of(**{f"r{j}": _deep(-12345678 - 7 * j - 1000 * i) for j in range(6)})
        for i in range(4)
    }
)
"""Two seconds of xgrammar, and 380 MB."""

UNWRITABLE = ("properties", "prefixItems", "items and contains")
"""Keywords whose doubling references require a value of terabytes: each call of it is cut."""

WORKS = {
    "maxLength 100,000": of(a={"type": "string", "maxLength": 100_000}),
    "1,000 optional properties": of(**{f"p{i}": {"type": "string"} for i in range(1000)}),
    "1,000 enum values": of(a={"type": "string", "enum": [f"value-{i}" for i in range(1000)]}),
    "anyOf nested 2^9": of(a=_any_of(9)),
    "64 levels": nested(31),
    "self-reference that ends": of(a={"$ref": "#"}),
    # From here on with what no engine takes left to the check.
    "200 overlapping patternProperties": of(
        a={
            "type": "object",
            "patternProperties": {f"^x{i}.*$": {"type": "string"} for i in range(200)},
        }
    ),
    "an integer of 400 digits": of(a={"type": "integer", "maximum": 10**400}),
    **{f"doubling {word}": HOSTILE[f"doubling {word}"] for word in UNWRITABLE},
    "10,000 items at least": of(
        a={"type": "array", "items": {"type": "string"}, "minItems": 10_000, "maxItems": 100_000}
    ),
}

REFUSED = {
    "pattern with big counts": (  # which the check can't hold
        of(a={"type": "string", "pattern": "^(a{1,1000}){1,1000}$"}),
        "/properties/a/pattern",
    ),
    "$ref to itself": (of(a={"$ref": "#/properties/a"}) | {"required": ["a"]}, "/properties/a"),
    "endless required recursion": (of(a={"$ref": "#"}) | {"required": ["a"]}, ""),
    "endless array": (
        of(a={"type": "array", "minItems": 1, "items": {"$ref": "#/properties/a"}})
        | {"required": ["a"]},
        "/properties/a",
    ),
    "lone surrogate, value": (of(a={"type": "string", "enum": ["\ud800"]}), ""),
    "lone surrogate, name": (of(**{"\udc00": {"type": "string"}}), ""),
}

OVER_LIMITS = {
    "1 MB": of(a={"type": "string", "pattern": "a" * 1_000_000}),
    "20,000 levels": nested(10_000),
    "100,000 enum values": of(a={"enum": list(range(100_000))}),
    "10,000 properties": of(**{f"p{i}": {"type": "null"} for i in range(10_000)}),
    "long names": of(**{"n" * 1000 + str(i): {"type": "null"} for i in range(200)}),
}
