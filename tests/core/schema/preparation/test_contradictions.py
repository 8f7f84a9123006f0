"""A schema that no value satisfies is refused with the keywords because of which."""

from __future__ import annotations

from typing import Any

import pytest

from toolgate_core.schema.preparation.contradictions import contradiction_in


def requires(schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}, "required": ["a"], **more}


EMPTY = {"type": "array", "minItems": 3, "maxItems": 1}


@pytest.mark.parametrize(
    ("schema", "pointer", "words"),
    [
        (
            requires({"type": "integer", "minimum": 5, "maximum": 3}),
            "/properties/a/minimum",
            "no value satisfies 'minimum' and 'maximum' together",
        ),
        (requires({"enum": []}), "/properties/a/enum", "no value satisfies 'enum'"),
        (
            requires({"type": "string", "enum": [1]}),
            "/properties/a/type",
            "no value satisfies 'type' and 'enum' together",
        ),
        (requires(False), "/properties/a", "no value satisfies it, and it is required"),
        (
            requires({"type": "string", "minLength": 5, "maxLength": 2}),
            "/properties/a/minLength",
            "no value satisfies 'minLength' and 'maxLength' together",
        ),
        (
            requires({"$ref": "#/$defs/x"}, **{"$defs": {"x": EMPTY}}),
            "/$defs/x/minItems",
            "no value satisfies 'minItems' and 'maxItems' together",
        ),
        (
            {"type": "object", "maxProperties": 0, "required": ["a"]},
            "/maxProperties",
            "no value satisfies 'maxProperties' and 'required' together",
        ),
        (
            requires({"anyOf": [{"enum": []}, EMPTY]}),
            "/properties/a/anyOf/0/enum",
            "no value satisfies 'enum'",
        ),
        (
            requires({"allOf": [{"type": "string"}, {"type": "integer"}]}),
            "/properties/a/allOf",
            "no value satisfies 'allOf'",
        ),
        ({"type": "object", "not": {}}, "/not", "no value satisfies 'not'"),
    ],
)
def test_the_innermost_contradiction_is_named(
    schema: dict[str, Any], pointer: str, words: str
) -> None:
    found = contradiction_in(schema)
    assert found is not None
    assert (found.pointer, found.reason) == (pointer, words)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {"a": False}},
        {"type": "object", "properties": {"a": {"type": "integer", "minimum": 5, "maximum": 3}}},
        requires({"anyOf": [{"enum": []}, {"type": "null"}]}),
        {"type": "array", "items": False},
        requires({"$ref": "#/properties/a"}),
    ],
)
def test_a_schema_with_a_value_has_none(schema: dict[str, Any]) -> None:
    assert contradiction_in(schema) is None
