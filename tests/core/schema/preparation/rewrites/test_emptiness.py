"""A proof that no value satisfies several schemas is never wrong. jsonschema-rs is the judge."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.effort import repeats
from tests.support.schemas.strategies import instances, schemas, side_by_side
from toolgate_core.schema.canonical import canonical_schema
from toolgate_core.schema.preparation.rewrites.document import Document
from toolgate_core.schema.preparation.rewrites.facts import prefix_of

SOME = settings(
    max_examples=repeats(66, nightly=200),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
)

KIND = {"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"]}
OTHER = {"properties": {"kind": {"enum": ["b", "c"]}}, "required": ["kind"]}
CLOSED = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}


def never(*given: Any) -> bool:
    document = Document(canonical_schema({"$defs": {"kind": KIND}, "allOf": [*given]}, param="s"))
    return document.emptiness.never(*document.root["allOf"])


@pytest.mark.parametrize(
    "contradiction",
    [
        [{"type": "string"}, {"type": ["array", "null"]}],
        [{"type": "integer"}, {"minimum": 1.2, "maximum": 1.8}, {"type": "number"}],
        [{"type": "number"}, {"exclusiveMinimum": 2}, {"maximum": 2}],
        [{"enum": ["a", "b"]}, {"pattern": "^c"}],
        [{"const": {"a": 1}}, {"properties": {"a": {"type": "string"}}}],
        [{"const": "a"}, {"not": {"enum": ["a", "b"]}}],
        [{"type": "string", "pattern": "^left"}, {"pattern": "^right"}],
        [{"type": "string", "minLength": 3}, {"maxLength": 2}],
        [{"type": "string", "pattern": "^a{3}$"}, {"maxLength": 2}],
        [{"type": "string", "pattern": "^a{3}$"}, {"pattern": "b{4}"}],
        [{"type": "integer", "multipleOf": 1.5}, {"minimum": 1}, {"maximum": 2}],
        [KIND, OTHER],
        [{"$ref": "#/$defs/kind"}, OTHER],
        [{"anyOf": [KIND, {"type": "null"}]}, OTHER, {"type": "object"}],
        [{"oneOf": [{"type": "string"}, {"type": "null"}]}, KIND],
        [CLOSED, {"required": ["b"], "type": "object"}],
        [CLOSED, {"minProperties": 2, "maxProperties": 1}],
        [KIND, {"propertyNames": {"pattern": "^x"}}],
        [KIND, {"dependentRequired": {"kind": ["b"]}}, CLOSED | {"properties": {"kind": {}}}],
        [KIND, {"dependentSchemas": {"kind": OTHER}}],
        [KIND, {"dependentSchemas": {"kind": {"not": {"required": ["kind"]}}}}],
        [{"type": "object", "required": ["xa"]}, {"patternProperties": {"^x": False}}],
        [
            {"type": "array", "minItems": 1, "items": {"type": "null"}},
            {"items": {"type": "string"}},
        ],
        [{"if": KIND, "then": {"type": "null"}, "else": {"type": "string"}}, OTHER, KIND],
        [False, {}],
    ],
)
def test_contradictions_are_found(contradiction: list[Any]) -> None:
    assert never(*contradiction)
    for at in range(len(contradiction)):
        if contradiction[at] is not False:
            assert not never(contradiction[at])


@pytest.mark.exhaustive
@SOME
@given(schemas(), schemas(), st.lists(instances, min_size=10, max_size=30))
def test_no_value_satisfies_a_contradiction(
    one: dict[str, Any], other: dict[str, Any], values: list[Any]
) -> None:
    whole = canonical_schema(side_by_side(one, other), param="schema")
    document = Document(whole)
    if document.emptiness.never(*document.root["properties"].values()):
        check = jsonschema_rs.validator_for(whole, validate_formats=True)
        assert not any(check.is_valid({"given": value, "beside": value}) for value in values)


def test_recursive_schemas_end() -> None:
    node = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}
    document = Document(canonical_schema(node, param="schema"))
    assert not document.emptiness.never(document.root, {"anyOf": [document.root] * 9})


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [
        ("^abc", "abc"),
        ("^abc*", "ab"),
        (r"^a\.b\d", "a.b"),
        ("^a|b", None),
        ("abc", None),
        ("^[ab]", None),
        (r"^\d", None),
        ("^ab?$", "a"),
        ("^a$", "a"),
    ],
)
def test_the_prefix_of_a_pattern(pattern: str, prefix: str | None) -> None:
    assert prefix_of(pattern) == prefix
