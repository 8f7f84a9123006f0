"""Objects that satisfy schemas of which masks enforce only a part, or which engines refuse."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings

from tests.support.effort import repeats
from tests.support.schemas.strategies import schemas
from toolgate_core.errors import SchemaNotEnforceable
from toolgate_core.schema.canonical import canonical_schema
from toolgate_core.schema.preparation.narrowing.witnesses import schema_of, witness
from toolgate_core.schema.preparation.prepare import prepare


def some(pattern: str) -> dict[str, Any]:
    """Objects with a member whose name matches a pattern."""
    return {"type": "object", "not": {"propertyNames": {"not": {"pattern": pattern}}}}


MULTIPLES = {"allOf": [{"multipleOf": 6.5}, {"multipleOf": 4}, {"not": {"multipleOf": 8}}]}

SCHEMAS: dict[str, dict[str, Any]] = {
    "one name that matches five patterns": {
        "allOf": [some("k"), some("m"), some("p"), some("q"), some("^.{6}")],
        "maxProperties": 1,
    },
    "two members, as no name matches both patterns": {
        "allOf": [some("^x.$"), some("^y.$")],
        "propertyNames": {"maxLength": 2},
    },
    "a name decides the value": {
        "minProperties": 1,
        "maxProperties": 1,
        "patternProperties": {"^u": {"type": "integer", "minimum": 40}, "w$": MULTIPLES},
        "propertyNames": {"pattern": "^u.*w$"},
    },
    "a multiple of several decimals between bounds": {
        "required": ["n"],
        "properties": {"n": MULTIPLES | {"type": "number", "maximum": -30, "minimum": -80}},
    },
    "members of members": {
        "$ref": "#/$defs/node",
        "$defs": {
            "leaf": some("z"),
            "node": some("v")
            | {"patternProperties": {"v": some("y") | {"additionalProperties": some("z")}}},
        },
    },
    "a name that propertyNames lists": {
        "propertyNames": {"enum": ["first", "second"]},
        "minProperties": 1,
        "properties": {"first": False},
    },
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_an_object_is_found_that_the_schema_accepts(name: str) -> None:
    schema = canonical_schema({"type": "object"} | SCHEMAS[name], param="schema")
    found = witness(schema)
    assert found is not None
    assert jsonschema_rs.is_valid(schema, found)


def test_there_is_none_if_no_object_is_accepted() -> None:
    assert witness({"type": "object", "not": {"type": "object"}}) is None


def test_a_pattern_that_is_not_regular_is_left_out() -> None:
    schema = {"patternProperties": {r"^(a)\1$": False, "^b": {"const": 5}}, "minProperties": 1}
    schema |= {"propertyNames": {"pattern": "^b"}}
    assert witness(schema) == {"b": 5}


def test_the_schema_of_an_object_accepts_this_object_only() -> None:
    schema = schema_of({"a": {"b": [1]}, "c": ""})
    assert not prepare(schema).residual
    accepts = jsonschema_rs.validator_for(schema).is_valid
    assert accepts({"a": {"b": [1]}, "c": ""})
    for other in ({}, {"a": {"b": [1]}}, {"a": {"b": [2]}, "c": ""}):
        assert not accepts(other)


@settings(
    max_examples=repeats(30, nightly=150),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(schemas())
def test_an_object_that_is_found_is_accepted(schema: dict[str, Any]) -> None:
    schema = canonical_schema(schema, param="schema")
    try:
        prepare(schema)
    except SchemaNotEnforceable:
        return
    found = witness(schema)
    assert found is None or jsonschema_rs.validator_for(schema).is_valid(found)
