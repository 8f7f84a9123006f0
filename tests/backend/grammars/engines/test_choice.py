from __future__ import annotations

from typing import Any

import pytest

from tests import tools
from toolgate_backend.grammars.engines.choice import (
    MAX_OPTIONAL_PROPERTIES,
    Choice,
    fallback_choices,
)
from toolgate_core.schema.canonical import canonical_parameters
from toolgate_core.schema.walk import find_keyword


def choose(parameters: dict[str, Any]) -> Choice:
    return next(fallback_choices(parameters, lambda _: True))


def engine(properties: dict[str, Any], **more: Any) -> str:
    return choose(canonical_parameters({"properties": properties, **more})).engine


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"type": "string", "enum": ["a", "b"], "description": "one of two"},
        {"type": "integer", "minimum": 0, "maximum": 9},
        {"type": "number", "exclusiveMinimum": 0.5},
        {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3},
        {"type": "object", "properties": {"b": {"type": "null"}}, "required": ["b"]},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
    ],
)
def test_the_sound_subset_is_compiled_by_xgrammar(schema: dict[str, Any]) -> None:
    assert engine({"a": schema}) == "xgrammar"


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"type": ["string", "null"]},
        {"type": "string", "maxLength": 3},
        {"type": "string", "pattern": "^a"},
        {"type": "string", "format": "date"},
        {"type": "integer", "enum": [1, True]},
        {"type": "integer", "minimum": 0.5},
        {"type": "number", "multipleOf": 0.1, "minimum": 0},
        {"type": "object"},
        {"type": "array"},
        {"type": "array", "items": {"type": "string"}, "maxItems": 1000},
        {"type": "object", "properties": {"b": {"type": "null"}}, "required": ["c"]},
        {"type": "object", "properties": {"b": {"type": "null"}}, "additionalProperties": True},
        {"minimum": 3},
    ],
)
def test_other_schemas_are_compiled_by_llguidance(schema: Any) -> None:
    assert engine({"a": schema}) == "llguidance"


def test_many_optional_properties_are_compiled_by_llguidance() -> None:
    many = {f"p{i}": {"type": "null"} for i in range(MAX_OPTIONAL_PROPERTIES + 1)}
    assert engine(many) == "llguidance"
    assert engine(many, required=list(many)) == "xgrammar"


def test_the_reason_names_the_deciding_keyword_and_pointer() -> None:
    choice = choose(canonical_parameters(tools.TAGS["function"]["parameters"]))
    assert choice.reason == "'maxLength' with type 'string' at /properties/tags/items"


def test_find_keyword_ignores_properties_named_like_a_keyword() -> None:
    schema = {"properties": {"not": {"type": "string"}, "a/b": {"not": {}}}}
    assert find_keyword(schema, "not") == "/properties/a~1b/not"
    assert find_keyword(schema, "contains") is None
