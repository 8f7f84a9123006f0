"""Patterns of few names are properties."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from toolgate_core.schema.canonical import canonical_schema
from toolgate_core.schema.preparation.prepare import prepare
from toolgate_core.schema.preparation.rewrites.finite_patterns import names_of
from toolgate_core.schema.preparation.rewrites.rewriting import rewritten

S = {"type": "string"}


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("^[a-c]$", ["a", "b", "c"]),
        ("^[axz]$", ["a", "x", "z"]),
        ("^(left|right)$", ["left", "right"]),
        ("^(?:on)$", ["on"]),
        ("^[a-z]$", None),
        ("^[^a]$", None),
        ("[ab]", None),
        ("^a*$", None),
    ],
)
def test_names_of_a_pattern(pattern: str, names: list[str] | None) -> None:
    assert names_of(pattern) == names


@pytest.mark.parametrize("more", [{}, {"additionalProperties": False}, {"minProperties": 2}])
def test_the_same_objects_are_accepted(more: dict[str, Any]) -> None:
    schema = canonical_schema(
        {
            "properties": {"a": {"minLength": 1}},
            "patternProperties": {"^[ab]$": S, "^b": {"maxLength": 2}},
            "not": {"type": "null"},
        }
        | more,
        param="schema",
    )
    made = rewritten(schema).finish()
    assert [*made["patternProperties"]] == ["^b"]
    values: list[Any] = [{}, {"a": ""}, {"a": "x"}, {"a": 1}, {"b": "x"}, {"b": "xxx"}, {"b": 1}]
    values += [{"a": "x", "b": "y"}, {"c": 1}, {"bc": "xxx"}, {"bc": 1}, None]
    for value in values:
        assert jsonschema_rs.is_valid(schema, value) == jsonschema_rs.is_valid(made, value), value


def test_masks_count_the_members_of_patterns() -> None:
    schema = {
        "type": "object",
        "patternProperties": {"^[a-d]$": True},
        "additionalProperties": False,
        "minProperties": 3,
        "dependentSchemas": {"a": {"not": {"required": ["b"]}}},
    }
    made = prepare(schema)
    assert not made.residual
    assert jsonschema_rs.is_valid(made.schema, {"a": 1, "c": 1, "d": 1})
    assert not jsonschema_rs.is_valid(made.schema, {"a": 1, "b": 1, "c": 1})
    assert not jsonschema_rs.is_valid(made.schema, {"b": 1, "c": 1})
