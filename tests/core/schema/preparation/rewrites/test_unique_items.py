"""Enumerable unique items are alternatives."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.effort import repeats
from tests.support.schemas.arrays import SHORT, array_schemas
from toolgate_core.schema.canonical import canonical_schema
from toolgate_core.schema.preparation.prepare import prepare
from toolgate_core.schema.preparation.rewrites.rewriting import rewritten

ABC = {"enum": ["a", "b", "c"]}
SOME = settings(
    max_examples=repeats(100, nightly=300),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
)


@pytest.mark.parametrize(
    ("schema", "masked"),
    [
        ({"items": ABC}, True),
        ({"items": ABC, "minItems": 2}, True),
        ({"items": {"type": ["boolean", "null"]}}, True),
        ({"items": {"enum": [*range(12)]}, "maxItems": 2}, True),
        ({"items": {"enum": [*range(12)]}}, False),
        ({"items": {"anyOf": [ABC, {"type": "boolean"}]}, "maxItems": 2}, True),
        ({"items": {"type": "string"}, "maxItems": 1}, True),
        ({"items": {"type": "string"}, "maxItems": 2}, False),
        ({"prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False}, True),
        ({"prefixItems": [{"type": "string"}, {"type": "string"}], "items": False}, False),
        ({"prefixItems": [{"type": "string"}, ABC, ABC], "items": {"type": "null"}}, False),
        ({"prefixItems": [{"type": "object"}, ABC, ABC], "items": False}, True),
    ],
)
def test_masks_enforce_unique_items(schema: dict[str, Any], masked: bool) -> None:
    given = {"type": "array", "uniqueItems": True} | schema
    schema = canonical_schema({"type": "object", "properties": {"value": given}}, param="schema")
    residual = [each.pointer for each in prepare(schema).residual]
    assert residual == ([] if masked else ["/properties/value/uniqueItems"])


@pytest.mark.exhaustive
@SOME
@given(array_schemas(uniqueItems=st.just(True)))
def test_the_same_arrays_are_accepted(schema: dict[str, Any]) -> None:
    schema = canonical_schema(schema, param="schema")
    made = rewritten(schema).finish()
    before, after = jsonschema_rs.validator_for(schema), jsonschema_rs.validator_for(made)
    values: list[Any] = [*SHORT, None, 1, "a", {}]
    for value in values:
        assert before.is_valid(value) == after.is_valid(value), value


def test_values_equal_in_json_schema_are_repetitions() -> None:
    schema = canonical_schema(
        {"type": "array", "items": {"enum": [1, 1.0, True, "1"]}, "uniqueItems": True},
        param="schema",
    )
    made = prepare(schema).schema
    assert jsonschema_rs.is_valid(made, [1, True, "1"])
    assert not jsonschema_rs.is_valid(made, [1, 1.0])
