"""Narrowed schemas have valid values, and masks enforce them."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings

from tests.support.effort import repeats
from tests.support.schemas.strategies import schemas
from toolgate_core.errors import SchemaNotEnforceable
from toolgate_core.schema.canonical import canonical_schema
from toolgate_core.schema.preparation.narrowing.narrowing import narrowed
from toolgate_core.schema.preparation.prepare import prepare

S = {"type": "string"}
UNIQUE = {"type": "array", "uniqueItems": True}


@pytest.mark.parametrize(
    ("schema", "accepted", "excluded"),
    [
        (UNIQUE | {"items": S}, [[], ["a"]], [["a", "a"]]),
        (UNIQUE | {"items": S, "minItems": 2}, [["ax", "b"]], [["a", "a"], ["a"]]),
        (UNIQUE | {"items": {"enum": [3, 4, 5]}, "minItems": 2}, [[3, 4]], [[3, 3]]),
        (
            {"type": "array", "items": {"type": "integer"}, "contains": {"const": 7}},
            [[7], [7, 1, 2]],
            [[], [1]],
        ),
        (
            {"type": "array", "contains": S, "minContains": 2, "maxContains": 2},
            [["a", "b"], ["a", "b", 1]],
            [["a"], ["a", "b", "c"]],
        ),
        ({"type": "string", "pattern": r"^(?!org\.)[a-z.]+$"}, ["name"], ["org.x"]),
        ({"type": "string", "format": "iri"}, ["https://example.org"], ["a"]),
        ({"type": "integer", "multipleOf": 3}, [0, 6], [-3, 4]),
        ({"type": "integer", "maximum": 2**63}, [5, 2**53], [2**63 + 1]),
        ({"type": "integer", "multipleOf": 10, "not": {"multipleOf": 20}}, [10, 30], [20]),
        (
            {"type": "object", "properties": {"a": S, "b": S, "c": S}, "minProperties": 2},
            [{"a": "", "b": ""}],
            [{"a": ""}],
        ),
        (
            {"type": "object", "propertyNames": {"pattern": "^(?!a)"}, "minProperties": 1},
            [{"b": 1}],
            [{"a": 1}, {}],
        ),
        (
            {
                "type": "object",
                "patternProperties": {"^[ab]": S, "^a[12]?$": {"minLength": 2}},
                "additionalProperties": False,
            },
            [{"a": "xx", "b": "x"}, {}],
            [{"a": "x"}, {"c": ""}],
        ),
        (
            {"type": "object", "oneOf": [{"minProperties": 2}, {"required": ["a"]}]},
            [{"a": 1}],
            [{"a": 1, "b": 1}],
        ),
    ],
)
def test_masks_enforce_a_part(schema: dict[str, Any], accepted: Any, excluded: Any) -> None:
    schema = canonical_schema({"properties": {"value": schema}}, param="schema")
    made = prepare(narrowed(schema))
    assert not made.residual
    before, after = jsonschema_rs.validator_for(schema), jsonschema_rs.validator_for(made.schema)
    for value in ({"value": each} for each in accepted):
        assert before.is_valid(value)
        assert after.is_valid(value), value
    for value in ({"value": each} for each in excluded):
        assert not after.is_valid(value), value


def test_a_schema_that_masks_enforce_stays() -> None:
    schema = canonical_schema({"type": "object", "properties": {"a": S}}, param="schema")
    assert narrowed(schema) == schema


@settings(
    max_examples=repeats(50, nightly=150),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(schemas())
def test_any_schema_can_be_narrowed(schema: dict[str, Any]) -> None:
    schema = canonical_schema(schema, param="schema")
    try:
        narrow = narrowed(schema)
    except SchemaNotEnforceable:
        return
    assert jsonschema_rs.meta.is_valid(narrow)
