"""`not`, `if` and `dependentSchemas` become alternatives, also with references inside."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from toolgate_core.schema.canonical import canonical_schema
from toolgate_core.schema.preparation.rewrites.rewriting import rewritten

KIND = {"kind": {"enum": ["a", "b"]}}
A = {"properties": {"kind": {"const": "a"}}, "required": ["kind"]}


@pytest.mark.parametrize(
    ("schema", "gone"),
    [
        ({"not": {"$ref": "#/$defs/a"}, "type": "object"}, "not"),
        ({"not": {"type": "string", "pattern": "^x"}, "type": "object"}, "not"),
        ({"not": {"items": {"type": "null"}}, "type": "array", "maxItems": 3}, "not"),
        ({"if": {"$ref": "#/$defs/a"}, "then": {"required": ["n"]}}, "if"),
        ({"if": A, "then": {"required": ["n"]}, "else": {"required": ["m"]}}, "else"),
        (
            {"dependentSchemas": {"n": {"$ref": "#/$defs/a"}}, "properties": KIND},
            "dependentSchemas",
        ),
    ],
)
def test_conditions_are_alternatives(schema: dict[str, Any], gone: str) -> None:
    schema = canonical_schema(schema | {"$defs": {"a": A}}, param="schema")
    made = rewritten(schema).finish()
    assert gone not in made
    values: list[Any] = [{}, {"kind": "a"}, {"kind": "b", "m": 1}, {"kind": "a", "n": 1}, {"n": 1}]
    values += [[], [None], [None, 1], [1, 1, 1, 1], "x", "xy", None]
    for value in values:
        assert jsonschema_rs.is_valid(schema, value) == jsonschema_rs.is_valid(made, value)


def test_texts_stay_excluded() -> None:
    """The engine form has a pattern for them."""
    schema = {"type": "string", "not": {"enum": ["a", "b"]}}
    assert rewritten(schema).finish() == schema


@pytest.mark.parametrize("keyword", ["unevaluatedProperties", "unevaluatedItems"])
def test_schemas_that_count_what_alternatives_describe_stay(keyword: str) -> None:
    schema = {keyword: False, "if": A, "then": {"properties": {"n": True}}}
    assert rewritten(schema).finish() == schema
