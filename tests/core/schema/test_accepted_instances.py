"""What prepared, relaxed, fallback and opened schemas accept; jsonschema-rs is the judge."""

import copy
from random import Random
from unittest.mock import patch

import jsonschema_rs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.effort import examples
from tests.support.schemas.strategies import instances, schemas
from toolgate_core.errors import SchemaNotEnforceable
from toolgate_core.schema.canonical import canonical_json, canonical_schema
from toolgate_core.schema.closed_objects import with_open_objects
from toolgate_core.schema.preparation.engine_form import unsupported_keywords
from toolgate_core.schema.preparation.prepare import (
    EVALUATING,
    UNEVALUATED,
    occurrences,
    occurrences_inside,
    prepare,
    prepare_compilable,
    prepare_type_only,
    relax,
    removed_occurrences,
)
from toolgate_core.schema.walk import subschemas
from toolgate_core.tools import content_format, parse_tools

SOME = examples(25, nightly=150)
MANY = st.lists(instances, min_size=5, max_size=15)
ENDLESS = {"allOf": [{"$ref": "#/$defs/x"}]}


def validator(schema):
    return jsonschema_rs.validator_for(schema, validate_formats=True)


@pytest.mark.exhaustive
@SOME
@given(schemas(), MANY)
def test_normalised_schemas_accept_the_same_instances(schema, values):
    """Without the tags that unions require (test_tags.py)."""
    with patch("toolgate_core.schema.canonical.require_tags"):
        before, after = validator(schema), validator(canonical_schema(schema, param="schema"))
    assert [before.is_valid(v) for v in values] == [after.is_valid(v) for v in values]


@pytest.mark.exhaustive
@SOME
@given(schemas(), MANY)
@example({"$defs": {"x": ENDLESS}, "additionalProperties": {"items": ENDLESS}}, [{}])
def test_prepared_schemas_accept_the_same_instances(schema, values):
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
def test_relaxed_schemas_accept_all_valid_instances(schema, values, dice):
    """Holds for any removed keywords, if each kept keyword keeps the keywords inside it."""
    schema = canonical_schema(schema, param="schema")
    hard = occurrences(schema)
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
def test_fallback_schemas_accept_all_valid_instances(schema, values):
    schema = canonical_schema(schema, param="schema")
    valid = [v for v in values if validator(schema).is_valid(v)]
    try:
        few = prepare_compilable(schema, lambda form: len(canonical_json(form)) < 200)
    except SchemaNotEnforceable:
        assert not valid
        return
    for made in (few, prepare_type_only(schema)):
        assert all(validator(made.schema).is_valid(v) for v in valid)


NAMED = {"type": "object", "properties": {"a": {"type": "integer"}}}


@SOME
@given(schemas(), MANY)
def test_open_objects_accept_the_same_instances(schema, values):
    canonical = canonical_schema(schema, param="schema")
    before, after = (
        jsonschema_rs.validator_for(each, validate_formats=True)
        for each in (canonical, with_open_objects(canonical))
    )
    assert [before.is_valid(v) for v in values] == [after.is_valid(v) for v in values]


@pytest.mark.parametrize(
    "said", [{"additionalProperties": False}, {"patternProperties": {"^x": {"type": "integer"}}}]
)
def test_explicit_additional_properties_are_kept(said):
    inner = NAMED | said
    made = with_open_objects({"type": "object", "properties": {"b": inner}})
    assert made == {
        "type": "object",
        "properties": {"b": inner},
        "additionalProperties": True,
    }


def test_schemas_with_unevaluated_properties_are_unchanged():
    schema = {"allOf": [NAMED], "unevaluatedProperties": False}
    assert with_open_objects(schema) == schema


def test_open_objects_change_the_hashes_of_tools_and_content_formats():
    entry = {"type": "function", "function": {"name": "f", "parameters": copy.deepcopy(NAMED)}}
    [closed], [open_] = parse_tools([entry]), parse_tools([entry], open_objects=True)
    assert open_.parameters["additionalProperties"] is True
    assert open_.hash != closed.hash
    assert open_.definition == closed.definition == entry  # the model reads what was given
    formats = [content_format(NAMED, param="p", open_objects=each) for each in (False, True)]
    assert formats[0].hash != formats[1].hash


def test_preparation_keeps_additional_properties_true():
    """Covers a schema with a `oneOf` that no engine supports directly."""
    either = [{"properties": {"b": {"const": n}}, "required": ["b"]} for n in (1, 2)]
    schema = NAMED | {"additionalProperties": True, "oneOf": either}
    made = prepare(canonical_schema(schema, param="schema")).schema
    objects = [node for _, node in subschemas(made) if "properties" in node]
    assert objects
    assert all(node["additionalProperties"] is True for node in objects)
