"""A schema that no value satisfies is refused with the keywords because of which."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.core.schema.regular.test_languages import SHORT, patterns
from toolgate_core.schema.preparation.contradictions import contradiction_in


def requires(schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}, "required": ["a"], **more}


EMPTY = {"type": "array", "minItems": 3, "maxItems": 1}


@pytest.mark.parametrize(
    ("schema", "pointer", "words"),
    [
        (
            requires({"type": "integer", "minimum": 5, "maximum": 3}),
            "/properties/a/minimum",
            "no value satisfies 'minimum' and 'maximum' together",
        ),
        (requires({"enum": []}), "/properties/a/enum", "no value satisfies 'enum'"),
        (
            requires({"type": "string", "enum": [1]}),
            "/properties/a/type",
            "no value satisfies 'type' and 'enum' together",
        ),
        (requires(False), "/properties/a", "no value satisfies it, and it is required"),
        (
            requires({"type": "string", "minLength": 5, "maxLength": 2}),
            "/properties/a/minLength",
            "no value satisfies 'minLength' and 'maxLength' together",
        ),
        (
            requires({"$ref": "#/$defs/x"}, **{"$defs": {"x": EMPTY}}),
            "/$defs/x/minItems",
            "no value satisfies 'minItems' and 'maxItems' together",
        ),
        (
            {"type": "object", "maxProperties": 0, "required": ["a"]},
            "/maxProperties",
            "no value satisfies 'maxProperties' and 'required' together",
        ),
        (
            requires({"anyOf": [{"enum": []}, EMPTY]}),
            "/properties/a/anyOf/0/enum",
            "no value satisfies 'enum'",
        ),
        (
            requires({"allOf": [{"type": "string"}, {"type": "integer"}]}),
            "/properties/a/allOf",
            "no value satisfies 'allOf'",
        ),
        ({"type": "object", "not": {}}, "/not", "no value satisfies 'not'"),
        (
            requires({"type": "string", "maxLength": 4, "minLength": 1, "pattern": "^a{5,9}$"}),
            "/properties/a/maxLength",
            "no value satisfies 'maxLength' and 'pattern' together",
        ),
        (
            requires({"type": "string", "maxLength": 2, "pattern": "abc"}),
            "/properties/a/maxLength",
            "no value satisfies 'maxLength' and 'pattern' together",
        ),
        (
            requires({"type": "string", "minLength": 3, "pattern": "^(?:a|bb)$"}),
            "/properties/a/minLength",
            "no value satisfies 'minLength' and 'pattern' together",
        ),
        (
            requires({"type": "integer", "minimum": 11, "maximum": 19, "multipleOf": 10}),
            "/properties/a/minimum",
            "no value satisfies 'minimum' and 'maximum' and 'multipleOf' together",
        ),
        (
            {"type": "number", "exclusiveMinimum": 0, "maximum": 0.29, "multipleOf": 0.3},
            "/exclusiveMinimum",
            "no value satisfies 'exclusiveMinimum' and 'maximum' and 'multipleOf' together",
        ),
        (
            {"type": "number", "minimum": 0.31, "exclusiveMaximum": 0.6, "multipleOf": 0.3},
            "/minimum",
            "no value satisfies 'minimum' and 'exclusiveMaximum' and 'multipleOf' together",
        ),
        (
            {"type": "number", "minimum": 0.1, "maximum": 0.2, "multipleOf": 1e300},
            "/minimum",
            "no value satisfies 'minimum' and 'maximum' and 'multipleOf' together",
        ),
    ],
)
def test_the_innermost_contradiction_is_named(
    schema: dict[str, Any], pointer: str, words: str
) -> None:
    found = contradiction_in(schema)
    assert found is not None
    assert (found.pointer, found.reason) == (pointer, words)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {"a": False}},
        {"type": "object", "properties": {"a": {"type": "integer", "minimum": 5, "maximum": 3}}},
        requires({"anyOf": [{"enum": []}, {"type": "null"}]}),
        {"type": "array", "items": False},
        requires({"$ref": "#/properties/a"}),
        {"type": "string", "maxLength": 2, "pattern": "^a{2,5}$"},
        {"type": "string", "maxLength": 4, "pattern": "^😀{2}$"},
        {"type": "string", "minLength": 9, "pattern": "^abc"},
        {"type": "string", "minLength": 9, "pattern": "^a$|b"},
        {"type": "string", "maxLength": 1, "pattern": r"^\p{L}+$"},  # unknown lengths
        {"maxLength": 1, "pattern": "^a{5}$"},  # a number has no pattern
        {"type": ["string", "null"], "maxLength": 1, "pattern": "^a{5}$"},
        {"type": "integer", "minimum": 11, "maximum": 20, "multipleOf": 10},
        {"type": "integer", "minimum": -5, "maximum": 5, "multipleOf": 10},
        {"type": "integer", "exclusiveMinimum": 9, "exclusiveMaximum": 11, "multipleOf": 2.5},
        {"type": "number", "minimum": 0.3, "maximum": 0.3, "multipleOf": 0.1},
        {"type": "number", "minimum": 1e-300, "maximum": 1e300, "multipleOf": 1e-300},
        {"type": "number", "minimum": 11, "multipleOf": 10},
    ],
)
def test_a_schema_with_a_value_has_none(schema: dict[str, Any]) -> None:
    assert contradiction_in(schema) is None


_DECIMALS = st.integers(-400, 400).map(lambda each: each / 100)
_BOUNDS = st.sampled_from([("minimum", "maximum"), ("exclusiveMinimum", "exclusiveMaximum")])


@settings(deadline=None, database=None)
@given(
    st.sampled_from(["integer", "number"]),
    _BOUNDS,
    _DECIMALS,
    st.integers(0, 100).map(lambda each: each / 100),
    st.integers(1, 250).map(lambda each: each / 100),
)
def test_multiples_are_missed_exactly_where_the_validator_finds_none(
    kind: str, names: tuple[str, str], low: float, width: float, factor: float
) -> None:
    high = round(low + width, 2)
    schema = {"type": kind, names[0]: low, names[1]: high, "multipleOf": factor}
    check = jsonschema_rs.validator_for(schema)
    hundredths = range(round(low * 100), round(high * 100) + 1)
    found = any(check.is_valid(Decimal(each) / 100) for each in hundredths)
    assert (contradiction_in(schema) is None) == found


@settings(deadline=None, database=None)
@given(patterns, st.integers(0, 4), st.integers(0, 4))
def test_no_string_satisfies_a_length_that_contradicts_its_pattern(
    pattern: str, least: int, most: int
) -> None:
    assume(least <= most)
    schema = {"type": "string", "pattern": pattern, "minLength": least, "maxLength": most}
    if contradiction_in(schema) is not None:
        check = jsonschema_rs.validator_for(schema)
        assert not any(map(check.is_valid, SHORT))
