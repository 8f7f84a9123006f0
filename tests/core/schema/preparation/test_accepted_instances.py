"""What prepared, relaxed and fallback schemas accept, for generated schemas and instances.
jsonschema-rs is the judge."""

from __future__ import annotations

from random import Random
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.effort import examples
from tests.support.schemas.strategies import instances, schemas
from toolgate_core.errors import SchemaNotEnforceable
from toolgate_core.schema.canonical import canonical_json, canonical_schema
from toolgate_core.schema.preparation.engine_form import unsupported_keywords
from toolgate_core.schema.preparation.prepare import prepare, prepare_compilable, prepare_type_only
from toolgate_core.schema.preparation.relaxation import (
    EVALUATING,
    UNEVALUATED,
    hard_occurrences,
    occurrences_inside,
    relax,
    removed_occurrences,
)

SOME = examples(50, nightly=150)
MANY = st.lists(instances, min_size=5, max_size=15)


def validator(schema: Any) -> Any:
    return jsonschema_rs.validator_for(schema, validate_formats=True)


@pytest.mark.exhaustive
@SOME
@given(schemas(), MANY)
def test_normalised_schemas_accept_the_same_instances(
    schema: dict[str, Any], values: list[Any]
) -> None:
    before, after = validator(schema), validator(canonical_schema(schema, param="schema"))
    assert [before.is_valid(v) for v in values] == [after.is_valid(v) for v in values]


@pytest.mark.exhaustive
@SOME
@given(schemas(), MANY)
def test_prepared_schemas_accept_the_same_instances(
    schema: dict[str, Any], values: list[Any]
) -> None:
    """Valid instances stay valid. Without residual keywords, invalid ones stay invalid."""
    schema = canonical_schema(schema, param="schema")
    before = validator(schema)
    try:
        made = prepare(schema)
    except SchemaNotEnforceable:
        assert not any(before.is_valid(v) for v in values)
        return
    assert not list(unsupported_keywords(made.schema))
    after = validator(made.schema)
    for value in values:
        if before.is_valid(value):
            assert after.is_valid(value)
        elif not made.residual:
            assert not after.is_valid(value)


@pytest.mark.exhaustive
@SOME
@given(schemas(), MANY, st.randoms(use_true_random=False))
@example(
    {
        "oneOf": [{"not": {"$ref": "#/$defs/x"}}],
        "$defs": {"x": {"contains": {}}},
    },
    [[]],
    Random(0),
)
def test_relaxed_schemas_accept_all_valid_instances(
    schema: dict[str, Any], values: list[Any], dice: Random
) -> None:
    """Holds for any removed keywords, if each kept keyword keeps the keywords inside it."""
    schema = canonical_schema(schema, param="schema")
    hard = hard_occurrences(schema)
    gone = {o for o in hard if dice.random() < 0.5}
    gone -= {inside for o in set(hard) - gone for inside in occurrences_inside(schema, o, hard)}
    silenced = any(o.keyword in EVALUATING for o in gone)
    if silenced and any(o.keyword in UNEVALUATED for o in set(hard) - gone):
        gone = set(hard)
    loose = validator(relax(schema, gone))
    assert all(loose.is_valid(v) for v in values if validator(schema).is_valid(v))
    assert {o.pointer for o in gone} <= {o.pointer for o in removed_occurrences(schema, gone)}


@pytest.mark.exhaustive
@SOME
@given(schemas(), MANY)
def test_fallback_schemas_accept_all_valid_instances(
    schema: dict[str, Any], values: list[Any]
) -> None:
    schema = canonical_schema(schema, param="schema")
    valid = [v for v in values if validator(schema).is_valid(v)]
    try:
        few = prepare_compilable(schema, lambda form: len(canonical_json(form)) < 200)
    except SchemaNotEnforceable:
        assert not valid
        return
    for made in (few, prepare_type_only(schema)):
        assert all(validator(made.schema).is_valid(v) for v in valid)
