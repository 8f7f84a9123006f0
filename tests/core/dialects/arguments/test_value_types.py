from __future__ import annotations

from typing import Any

import pytest

from toolgate_core.dialects.arguments.value_types import ALL, argument_types

NUMBERS = {"integer", "number"}


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        ({"type": "string"}, {"string"}),
        ({"type": "number"}, NUMBERS),
        ({"type": ["string", "null"]}, {"string", "null"}),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"string", "integer"}),
        ({"oneOf": [{"type": "array"}, {"type": "boolean"}]}, {"array", "boolean"}),
        ({"allOf": [{"type": ["string", "null"]}, {"type": "string"}]}, {"string"}),
        ({"enum": ["a", None, 2]}, {"string", "null", "integer"}),
        ({"type": "string", "enum": ["a", None]}, {"string"}),
        ({"const": 2.5}, NUMBERS),
        ({"$ref": "#/$defs/text"}, {"string"}),
        ({"$ref": "#/$defs/loop"}, {"null"} | ALL),
        ({}, ALL),
        (True, ALL),
    ],
)
def test_types_of_a_declared_argument(schema: Any, types: set[str]) -> None:
    loop = {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/loop"}]}
    parameters = {"properties": {"a": schema}, "$defs": {"text": {"type": "string"}, "loop": loop}}
    assert argument_types(parameters, "a") == types


def test_types_of_further_arguments() -> None:
    parameters = {
        "properties": {"a": {"type": "string"}},
        "patternProperties": {"^n_": {"type": "integer"}},
        "additionalProperties": {"type": ["boolean", "null"]},
    }
    assert argument_types(parameters, "n_1") == {"integer"}
    assert argument_types(parameters, "b") == {"boolean", "null"}


def test_branches_of_the_parameters_are_united() -> None:
    branches = [
        {"properties": {"a": {"type": "string"}}, "additionalProperties": False},
        {"properties": {"a": {"type": "integer"}}},
        {"properties": {"b": {"type": "null"}}, "additionalProperties": False},
    ]
    assert argument_types({"anyOf": branches}, "a") == {"string", "integer"}
    assert argument_types({"anyOf": branches[:1]}, "c") == ALL


def test_a_pattern_of_names_takes_linear_time() -> None:
    """Python's regular expressions would take 2^5000 steps."""
    schema = {"patternProperties": {"^(a|aa)+$": {"type": "null"}, "^(a|aa)+b$": {"type": "array"}}}
    assert argument_types(schema, "a" * 5_000 + "b") == {"array"}
