"""The members of open objects are counted in alternatives."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.effort import repeats
from toolgate_core.errors import SchemaNotEnforceable
from toolgate_core.schema.canonical import canonical_schema
from toolgate_core.schema.preparation.prepare import prepare

NAMES = ["a", "b", "c", "x1", "x2", "z"]
OBJECTS: list[dict[str, Any]] = [
    dict.fromkeys(some, value)
    for count in range(5)
    for some in combinations(NAMES, count)
    for value in ("s", 1)
]
S = {"type": "string"}
ABC = {"a": S, "b": S, "c": {}}


def same_values(given: dict[str, Any]) -> list[str]:
    """The residual keywords, if the prepared schema accepts the same objects without these."""
    schema = canonical_schema(given, param="schema")
    made = prepare(schema)
    before, after = jsonschema_rs.validator_for(schema), jsonschema_rs.validator_for(made.schema)
    for value in OBJECTS:
        if before.is_valid(value):
            assert after.is_valid(value), value
        elif not made.residual:
            assert not after.is_valid(value), value
    return [each.keyword for each in made.residual]


@pytest.mark.parametrize(
    ("schema", "residual"),
    [
        ({"minProperties": 1, "patternProperties": {"^x": S}, "additionalProperties": False}, []),
        ({"minProperties": 1, "additionalProperties": S}, []),
        ({"minProperties": 2, "required": ["a"], "additionalProperties": True}, []),
        ({"maxProperties": 2, "additionalProperties": True}, []),
        ({"minProperties": 1, "maxProperties": 1, "patternProperties": {"^x": S}}, []),
        ({"minProperties": 3, "additionalProperties": True}, ["minProperties"]),
    ],
)
def test_masks_count_declared_and_other_members(
    schema: dict[str, Any], residual: list[str]
) -> None:
    assert same_values({"type": "object", "properties": ABC} | schema) == residual


def test_one_member_of_many_names() -> None:
    """`not` asks for a member, which is the only one."""
    schema = {
        "type": "object",
        "maxProperties": 1,
        "allOf": [
            {"not": {"patternProperties": {"x": S}}},
            {"not": {"propertyNames": {"pattern": "^z"}}},
        ],
    }
    assert same_values(schema) == []


def test_a_definition_with_not_is_rewritten_where_it_is_used() -> None:
    """Only one of its uses is in an object with at most one member."""
    schema = {
        "type": "object",
        "allOf": [{"$ref": "#/$defs/x"}],
        "maxProperties": 1,
        "patternProperties": {"^x": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/x"}]}},
        "$defs": {"x": {"not": {"propertyNames": {"pattern": "^[a-w]"}}}},
    }
    assert same_values(schema) == ["not"]


@pytest.mark.exhaustive
@settings(
    max_examples=repeats(50, nightly=150),
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    st.fixed_dictionaries(
        {"type": st.just("object")},
        optional={
            "properties": st.dictionaries(st.sampled_from("abc"), st.sampled_from([S, False, {}])),
            "patternProperties": st.dictionaries(st.sampled_from(["^x", "a"]), st.just(S)),
            "additionalProperties": st.sampled_from([False, True, S]),
            "minProperties": st.integers(0, 3),
            "maxProperties": st.integers(0, 3),
            "required": st.lists(st.sampled_from(["a", "x1"]), unique=True),
            "not": st.sampled_from(
                [
                    {"patternProperties": {"x": S}},
                    {"propertyNames": {"enum": ["a", "x1"]}},
                    {"properties": {"a": S}, "additionalProperties": S},
                ]
            ),
        },
    )
)
def test_no_valid_object_is_excluded(schema: dict[str, Any]) -> None:
    try:
        same_values(schema)
    except SchemaNotEnforceable:
        assert not any(jsonschema_rs.is_valid(schema, value) for value in OBJECTS)
