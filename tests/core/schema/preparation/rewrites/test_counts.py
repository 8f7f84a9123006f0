"""Bounds on the number of members of closed objects are alternatives."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import jsonschema_rs
import pytest

from toolgate_core.schema.canonical import canonical_schema
from toolgate_core.schema.preparation.prepare import prepare


@pytest.mark.parametrize("required", [[], ["a"]])
@pytest.mark.parametrize(
    "bounds", [{"minProperties": 3}, {"maxProperties": 2}, {"minProperties": 2, "maxProperties": 3}]
)
def test_masks_count_members(required: list[str], bounds: dict[str, int]) -> None:
    names = "abcd"
    given: dict[str, Any] = {
        "type": "object",
        "properties": {name: {"type": "integer"} for name in names},
        "required": required,
        "additionalProperties": False,
    }
    schema = canonical_schema(given | bounds, param="schema")
    made = prepare(schema)
    assert not made.residual
    for count in range(5):
        for some in combinations(names, count):
            value = dict.fromkeys(some, 1)
            assert jsonschema_rs.is_valid(schema, value) == jsonschema_rs.is_valid(
                made.schema, value
            )


def test_too_many_ways_are_left_to_validation() -> None:
    properties = {f"p{at}": {"type": "integer"} for at in range(30)}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    assert [each.keyword for each in prepare(schema | {"minProperties": 9}).residual] == [
        "minProperties"
    ]
