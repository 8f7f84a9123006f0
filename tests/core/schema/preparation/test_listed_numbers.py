"""Multiples and excluded numbers between bounds are listed."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from toolgate_core.schema.canonical import canonical_schema
from toolgate_core.schema.preparation.prepare import prepare

NUMBERS = [each / 4 for each in range(-90, 90)]


@pytest.mark.parametrize(
    ("schema", "masked"),
    [
        ({"type": "integer", "multipleOf": 3, "minimum": -9, "maximum": 9}, True),
        ({"type": "number", "multipleOf": 2.5, "exclusiveMinimum": -10, "maximum": 5}, True),
        ({"type": "integer", "minimum": -5, "maximum": 20, "not": {"multipleOf": 4}}, True),
        (
            {
                "type": "integer",
                "multipleOf": 2,
                "minimum": 1,
                "maximum": 20,
                "not": {"anyOf": [{"multipleOf": 6}, {"multipleOf": 4}]},
            },
            True,
        ),
        ({"type": "integer", "multipleOf": 3, "minimum": -9}, False),
        ({"type": "integer", "multipleOf": 3, "minimum": -900, "maximum": 9}, False),
        ({"type": "number", "minimum": 0, "maximum": 2, "not": {"multipleOf": 0.5}}, False),
    ],
)
def test_masks_enforce_few_numbers(schema: dict[str, Any], masked: bool) -> None:
    schema = canonical_schema({"type": "object", "properties": {"value": schema}}, param="schema")
    made = prepare(schema)
    assert (not made.residual) == masked
    before, after = jsonschema_rs.validator_for(schema), jsonschema_rs.validator_for(made.schema)
    for value in NUMBERS:
        instance = {"value": value}
        assert before.is_valid(instance) == after.is_valid(instance) or (
            not masked and after.is_valid(instance)
        )
