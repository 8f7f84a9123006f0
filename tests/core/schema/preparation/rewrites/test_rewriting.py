"""A rewritten schema accepts the same values as the given one."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.effort import repeats
from tests.support.schemas.strategies import instances, schemas
from toolgate_core.schema.canonical import canonical_schema
from toolgate_core.schema.preparation.relaxation import hard_occurrences
from toolgate_core.schema.preparation.rewrites.rewriting import rewritten
from toolgate_core.schema.walk import at_pointer

SOME = settings(
    max_examples=repeats(133, nightly=400),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
)


@pytest.mark.exhaustive
@SOME
@example({"not": {"const": 1, "enum": [None, 1]}}, [None, 1, 2, "x"])
@given(schemas(), st.lists(instances, min_size=10, max_size=20))
def test_rewritten_schemas_accept_the_same_values(
    schema: dict[str, Any], values: list[Any]
) -> None:
    schema = canonical_schema(schema, param="schema")
    document = rewritten(schema)
    new = document.finish()
    before = jsonschema_rs.validator_for(schema, validate_formats=True)
    after = jsonschema_rs.validator_for(new, validate_formats=True)
    assert [before.is_valid(v) for v in values] == [after.is_valid(v) for v in values]
    for occurrence in map(document.origin, hard_occurrences(new)):
        assert occurrence.keyword in at_pointer(schema, occurrence.owner)
