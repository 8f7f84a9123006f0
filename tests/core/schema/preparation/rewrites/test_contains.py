"""`contains` is a choice of items that satisfy it."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.effort import repeats
from tests.support.schemas.arrays import SHORT, array_schemas, item_schemas
from toolgate_core.schema.canonical import canonical_schema
from toolgate_core.schema.preparation.prepare import prepare
from toolgate_core.schema.preparation.rewrites.rewriting import rewritten

TEXTS = {"type": "string"}
SOME = settings(
    max_examples=repeats(100, nightly=300),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
)


@pytest.mark.parametrize(
    ("schema", "masked"),
    [
        ({"contains": TEXTS, "maxItems": 3}, True),
        ({"contains": TEXTS, "maxItems": 4, "minContains": 2, "maxContains": 2}, True),
        ({"contains": TEXTS, "items": TEXTS, "minContains": 3, "maxContains": 5}, True),
        ({"contains": {"minLength": 0}, "items": TEXTS}, True),
        ({"contains": TEXTS, "prefixItems": [TEXTS, {}], "items": {"type": "null"}}, True),
        ({"contains": TEXTS, "minContains": 0}, True),
        ({"contains": TEXTS, "minContains": 0, "maxContains": 0}, True),
        ({"contains": {"$ref": "#/$defs/x"}, "maxItems": 2, "maxContains": 1}, True),
        ({"contains": TEXTS}, False),
        ({"contains": TEXTS, "maxItems": 40}, False),
        ({"contains": TEXTS, "maxItems": 12, "minContains": 6}, False),
        ({"contains": {"uniqueItems": True}, "maxItems": 2, "maxContains": 1}, False),
    ],
)
def test_masks_enforce_contains(schema: dict[str, Any], masked: bool) -> None:
    given = {"type": "array"} | schema
    schema = canonical_schema(
        {"type": "object", "properties": {"value": given}, "$defs": {"x": {"enum": ["a", 1]}}},
        param="schema",
    )
    residual = {each.pointer for each in prepare(schema).residual}
    assert ("/properties/value/contains" not in residual) == masked


@pytest.mark.exhaustive
@SOME
@given(
    array_schemas(contains=item_schemas()),
    st.fixed_dictionaries(
        {}, optional={"minContains": st.integers(0, 3), "maxContains": st.integers(0, 3)}
    ),
)
def test_the_same_arrays_are_accepted(schema: dict[str, Any], counts: dict[str, int]) -> None:
    schema = canonical_schema(schema | counts, param="schema")
    made = rewritten(schema).finish()
    before, after = jsonschema_rs.validator_for(schema), jsonschema_rs.validator_for(made)
    values: list[Any] = [*SHORT, None, 1, "a", {}]
    for value in values:
        assert before.is_valid(value) == after.is_valid(value), value
