"""The alternatives of a negation are exactly the values that do not satisfy the schema."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.effort import repeats
from tests.support.schemas.strategies import instances, schemas, side_by_side
from toolgate_core.schema.canonical import canonical_schema
from toolgate_core.schema.preparation.rewrites.document import Document
from toolgate_core.schema.preparation.rewrites.negation import Negation, NotExpressible
from toolgate_core.schema.preparation.rewrites.other_values import any_of

SOME = settings(
    max_examples=repeats(66, nightly=200),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
)


def negated(given: Any, beside: Any = True) -> list[Any]:
    schema = {"properties": {"given": given, "beside": beside}, "$defs": {"s": {"minLength": 2}}}
    document = Document(canonical_schema(schema, param="schema"))
    inside = document.root["properties"]
    return Negation(document).of(inside["given"], inside["beside"])


def one(text: str) -> dict[str, Any]:
    return {"type": "object", "properties": {text: False}}


@pytest.mark.parametrize(
    ("schema", "beside", "alternatives"),
    [
        ({"required": ["a"]}, True, [one("a")]),
        ({"minimum": 3}, True, [{"type": "number", "exclusiveMaximum": 3}]),
        ({"maxLength": 3}, True, [{"type": "string", "minLength": 4}]),
        ({"minLength": 0}, True, []),
        ({"$ref": "#/$defs/s"}, True, [{"type": "string", "maxLength": 1}]),
        ({"enum": [True]}, {"type": "boolean"}, [{"const": False}]),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}, []),
        ({"pattern": "^x"}, {"const": "xy"}, []),
        ({"not": {"type": "null"}}, True, 1),
        ({"pattern": "^x"}, True, 1),
        ({"const": []}, {"type": "array"}, [{"type": "array", "minItems": 1}]),
        ({"const": [1, True]}, {"type": "array"}, 4),
        ({"enum": [{"a": True}]}, {"type": "object"}, 3),
        ({"contains": {"type": "string", "minLength": 1}}, {"type": "array"}, 1),
        ({"additionalProperties": False}, {"additionalProperties": False, "properties": {}}, []),
        ({"if": {"required": ["a"]}, "then": {"required": ["b"]}}, {"type": "object"}, 1),
        ({"items": {"type": "null"}}, {"type": "array", "maxItems": 2}, 2),
        ({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"type": "object"}, 1),
    ],
)
def test_negated_keywords(schema: Any, beside: Any, alternatives: Any) -> None:
    found = negated(schema, beside)
    assert found == alternatives if isinstance(alternatives, list) else len(found) == alternatives


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": r"\bx"},
        {"type": "integer"},
        {"uniqueItems": True},
        {"propertyNames": {"const": "a"}},
    ],
)
def test_what_has_no_positive_keywords(schema: Any) -> None:
    with pytest.raises(NotExpressible):
        negated(schema)


@pytest.mark.exhaustive
@SOME
@given(schemas(), schemas(), st.lists(instances, min_size=10, max_size=20))
def test_either_the_schema_or_an_alternative_accepts_a_value(
    schema: dict[str, Any], beside: dict[str, Any], values: list[Any]
) -> None:
    document = Document(canonical_schema(side_by_side(schema, beside), param="schema"))
    inside = document.root["properties"]
    with suppress(NotExpressible):
        inside["negated"] = any_of(Negation(document).of(inside["given"], inside["beside"]))
    whole = document.finish()
    if "negated" not in whole["properties"]:
        return
    check = jsonschema_rs.validator_for(whole, validate_formats=True)
    for value in values:
        if check.is_valid({"beside": value}):
            assert check.is_valid({"given": value}) != check.is_valid({"negated": value})
