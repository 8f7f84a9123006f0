from __future__ import annotations

from typing import Any

import pytest

from toolgate_backend.grammars.compiled_grammar import MAX_TOKENS, extra_tokens

TEXT = {"type": "string"}


def needs(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


@pytest.mark.parametrize(
    ("schema", "tokens"),
    [
        (needs(city=TEXT), 64),
        (needs(city=TEXT, country=TEXT), 128),
        ({"type": "object", "properties": {"city": TEXT}}, 64),
        (needs(days={"type": "integer"}, sure={"type": "boolean"}), 64),
        (needs(unit={"type": "string", "enum": ["a", "b"]}, city=TEXT), 64),
        (needs(code={"type": "string", "maxLength": 30}, city=TEXT), 74),
        (needs(at={"type": "string", "format": "date"}, city=TEXT), 64),
        ({}, 64),
        (needs(tags={"type": "array", "items": TEXT}), 64),
        (needs(tags={"type": "array", "items": TEXT, "minItems": 3}), 192),
        (needs(note={"anyOf": [TEXT, {"type": "null"}]}), 64),
        (needs(note={"type": ["string", "null"]}), 64),
        (needs(place=needs(street=TEXT, city=TEXT)), 128),
        (needs(more={"type": "object"}), 64),
        ({"$defs": {"t": TEXT}, **needs(a={"$ref": "#/$defs/t"}, b={"$ref": "#/$defs/t"})}, 128),
        (needs(**{f"p{at}": TEXT for at in range(50)}), MAX_TOKENS),
        ({"type": "object", "properties": {}, "additionalProperties": False}, 0),
    ],
)
def test_each_required_string_needs_room(schema: dict[str, Any], tokens: int) -> None:
    assert extra_tokens(schema) == tokens


def test_a_recursive_schema_is_estimated() -> None:
    node = needs(name=TEXT, left={"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]})
    assert 64 <= extra_tokens({"$defs": {"node": node}, "$ref": "#/$defs/node"}) <= MAX_TOKENS
