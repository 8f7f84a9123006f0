"""Open objects: the same instances, with explicit `additionalProperties`."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import examples
from tests.support.schemas.strategies import instances, schemas
from toolgate_core.schema.canonical import canonical_schema
from toolgate_core.schema.closed_objects import with_open_objects
from toolgate_core.schema.preparation.prepare import prepare
from toolgate_core.schema.walk import subschemas
from toolgate_core.tools import content_format, parse_tools

MANY = st.lists(instances, min_size=5, max_size=15)
NAMED = {"type": "object", "properties": {"a": {"type": "integer"}}}


@examples(50, nightly=150)
@given(schemas(), MANY)
def test_open_objects_accept_the_same_instances(schema: dict[str, Any], values: list[Any]) -> None:
    canonical = canonical_schema(schema, param="schema")
    before, after = (
        jsonschema_rs.validator_for(each, validate_formats=True)
        for each in (canonical, with_open_objects(canonical))
    )
    assert [before.is_valid(v) for v in values] == [after.is_valid(v) for v in values]


@pytest.mark.parametrize(
    "said", [{"additionalProperties": False}, {"patternProperties": {"^x": {"type": "integer"}}}]
)
def test_explicit_additional_properties_are_kept(said: dict[str, Any]) -> None:
    inner = NAMED | said
    made = with_open_objects({"type": "object", "properties": {"b": inner}})
    assert made == {
        "type": "object",
        "properties": {"b": inner},
        "additionalProperties": True,
    }


def test_schemas_with_unevaluated_properties_are_unchanged() -> None:
    schema = {"allOf": [NAMED], "unevaluatedProperties": False}
    assert with_open_objects(schema) == schema


def test_open_objects_change_the_hashes_of_tools_and_content_formats() -> None:
    entry = {"type": "function", "function": {"name": "f", "parameters": copy.deepcopy(NAMED)}}
    [closed], [open_] = parse_tools([entry]), parse_tools([entry], open_objects=True)
    assert open_.parameters["additionalProperties"] is True
    assert open_.hash != closed.hash
    assert open_.definition == closed.definition == entry  # the model reads what was given
    formats = [content_format(NAMED, param="p", open_objects=each) for each in (False, True)]
    assert formats[0].hash != formats[1].hash


def test_preparation_keeps_additional_properties_true() -> None:
    """Covers a schema with a `oneOf` that no engine supports directly."""
    either = [{"properties": {"b": {"const": n}}, "required": ["b"]} for n in (1, 2)]
    schema = NAMED | {"additionalProperties": True, "oneOf": either}
    made = prepare(canonical_schema(schema, param="schema")).schema
    objects = [node for _, node in subschemas(made) if "properties" in node]
    assert objects
    assert all(node["additionalProperties"] is True for node in objects)
