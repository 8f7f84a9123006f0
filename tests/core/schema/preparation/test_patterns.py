"""Names and strings that the canonical form describes in ways that engines do not support."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import examples
from toolgate_core.schema.canonical import canonical_schema
from toolgate_core.schema.preparation.engine_form import PropertyOrder, to_engine_form
from toolgate_core.schema.preparation.prepare import prepare

NAMES = ["", "a", "b", "ab", "ba", "abc", "cab", "x1", "a.b", "é", "aa", "12"]
VALUES: list[Any] = [None, 1, 15, "a", "bcd", []]
ONE = [{name: value} for name, value in product(NAMES, VALUES)]
OBJECTS: list[Any] = [{}, *ONE]
OBJECTS += [one | other for one, other in combinations(ONE[::4], 2)]
S, N = {"type": "string"}, {"type": "integer"}

_names = st.one_of(
    st.sampled_from(
        [
            {"pattern": "^a"},
            {"maxLength": 2},
            {"minLength": 1, "pattern": "^[ab]*$"},
            {"enum": ["a", "ab", 1]},
            {"not": {"pattern": "b"}},
            {"anyOf": [{"pattern": "a"}, {"const": "é"}]},
            {"$ref": "#/$defs/name"},
            {"allOf": [{"pattern": "a"}, {"pattern": "b"}]},
            {"type": ["string", "null"], "pattern": "^[^.]*$"},
            {"type": "object"},
            {"pattern": "^(?!a)"},
        ]
    ),
    st.booleans(),
)
_members = st.dictionaries(
    st.sampled_from(["a", "^a", "b$", "^[ab]+$", "^.{2}$", "^(?!ab)", "[0-9]"]),
    st.sampled_from([True, False, S, N, {"minLength": 2}, {"minimum": 3}]),
    max_size=3,
)
_schemas = st.fixed_dictionaries(
    {"type": st.sampled_from(["object", ["object", "null"]])},
    optional={
        "propertyNames": _names,
        "patternProperties": _members,
        "properties": st.dictionaries(st.sampled_from(["a", "ab", "x1"]), st.sampled_from([S, N])),
        "additionalProperties": st.sampled_from([False, True, S]),
        "allOf": st.lists(
            st.fixed_dictionaries({"patternProperties": _members, "propertyNames": _names}),
            min_size=1,
            max_size=1,
        ),
        "required": st.lists(st.sampled_from(["a", "ab"]), unique=True),
    },
)


@pytest.mark.parametrize(
    "schema",
    [
        {"propertyNames": {"pattern": "^(?!ab)"}, "additionalProperties": S},
        {"propertyNames": {"enum": ["a", "ab", 1]}, "properties": {"a": S}},
        {"propertyNames": {"const": "ab"}, "additionalProperties": N},
        {"propertyNames": {"type": "string"}, "additionalProperties": N},
        {"patternProperties": {"^(?!ab)": S}, "additionalProperties": False},
        {"propertyNames": False},
    ],
)
def test_masks_enforce_names(schema: dict[str, Any]) -> None:
    given = {"type": "object", "$defs": {"name": {"pattern": "^[ab]+$", "maxLength": 2}}} | schema
    schema = canonical_schema(given, param="schema")
    made = prepare(schema)
    assert not made.residual
    patterns = [*made.schema.get("patternProperties", {})]
    for name in NAMES:
        assert sum(jsonschema_rs.is_valid({"pattern": each}, name) for each in patterns) <= 1
    before = jsonschema_rs.validator_for(schema, validate_formats=True)
    after = jsonschema_rs.validator_for(made.schema)
    for value in OBJECTS:
        assert before.is_valid(value) == after.is_valid(value), value


@pytest.mark.exhaustive
@examples(66, nightly=200)
@given(_schemas)
def test_the_engine_form_accepts_the_same_objects(schema: dict[str, Any]) -> None:
    defined = schema | {"$defs": {"name": {"pattern": "^[ab]+$", "maxLength": 2}}}
    schema = canonical_schema(defined, param="schema")
    made = to_engine_form(schema, PropertyOrder(schema))
    before, after = jsonschema_rs.validator_for(schema), jsonschema_rs.validator_for(made)
    for value in [*OBJECTS, None]:
        assert before.is_valid(value) == after.is_valid(value), value


@pytest.mark.parametrize(
    "schema",
    [
        {"propertyNames": {"$ref": "#/$defs/name"}, "additionalProperties": S},
        {"propertyNames": {"not": {"pattern": "b"}}},
        {"propertyNames": {"format": "regex"}},
        {"propertyNames": {"pattern": "^(?!ab)[a-z]+$"}},
        {"propertyNames": {"pattern": "^a"}, "properties": {"a": S}, "additionalProperties": N},
        {"propertyNames": {"pattern": "^a"}, "required": ["ab"], "additionalProperties": N},
    ],
)
def test_names_that_are_not_one_list_or_pattern_are_left_to_validation(
    schema: dict[str, Any],
) -> None:
    given = {"type": "object", "$defs": {"name": {"pattern": "^[ab]+$", "maxLength": 2}}} | schema
    made = prepare(canonical_schema(given, param="schema"))
    assert [each.pointer for each in made.residual] == ["/propertyNames"]


def test_of_two_patterns_of_names_one_is_left_to_validation() -> None:
    given = {"type": "object", "propertyNames": {"pattern": "^a"}, "patternProperties": {"b": S}}
    made = prepare(canonical_schema(given, param="schema"))
    assert [each.pointer for each in made.residual] == ["/patternProperties"]
    assert made.schema["patternProperties"] == {"^a": True}


@pytest.mark.parametrize(
    "schema",
    [
        {"patternProperties": {"a": False}},
        {"patternProperties": {"^a": S, "^[0-9]": N}, "additionalProperties": False},
        {"patternProperties": {"^a": S}, "properties": {"b": N}, "additionalProperties": False},
    ],
)
def test_patterns_beside_other_members_are_left_to_validation(schema: dict[str, Any]) -> None:
    made = prepare(canonical_schema({"type": "object"} | schema, param="schema"))
    assert {each.keyword for each in made.residual} == schema.keys() - {"properties"}
    for value in OBJECTS:
        assert jsonschema_rs.is_valid(made.schema, value) or not jsonschema_rs.is_valid(
            schema, value
        )
    assert made.schema["additionalProperties"] is True
