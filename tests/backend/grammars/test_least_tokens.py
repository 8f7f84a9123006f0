"""The least number of tokens of a call, by a walk of its schema."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from tests.support.dialects.model import DialectModel
from toolgate_backend.grammars.least_tokens import (
    FORMATS,
    MAX_LENGTH,
    LeastTokens,
    numbers_of,
    short_match,
    texts_of,
)
from toolgate_core.custom_tools import Grammar, custom_parameters
from toolgate_core.dialects.mark_texts import mark_texts
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.schema.canonical import canonical_json
from toolgate_core.schema.formats import BUILT_IN

LONGER = "a longer text than the others"
NODE = {
    "type": "object",
    "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
    "required": ["next"],
}


def model(name: str) -> DialectModel:
    return DialectModel(DIALECTS[name], mark_texts(DIALECTS[name]))


def least(found: DialectModel, schema: dict[str, Any]) -> int | None:
    return LeastTokens(found.vocabulary.form, found.data.token_index).of("f", schema)


def of_member(schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": schema}, "required": ["x"], **more}


@pytest.mark.parametrize(
    ("schema", "shortest"),
    [
        ({"type": "string"}, ""),
        ({"enum": [LONGER, "b"]}, "b"),
        ({"type": "string", "minLength": 1}, "."),
        ({"type": "string", "pattern": "^[A-Z]{2}-\\d+$"}, "AA-0"),
        ({"type": "integer", "minimum": 7}, 7),
        ({"type": "integer", "exclusiveMaximum": -7}, -8),
        ({"type": "integer", "minimum": 10, "multipleOf": 8}, 16),
        ({"type": "array", "items": {"type": "boolean"}, "minItems": 2}, [True, True]),
        ({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "minItems": 1}, [1]),
        ({"anyOf": [{"const": LONGER}, {"type": "array", "items": {"type": "null"}}]}, []),
        ({"type": "object", "properties": {"y": {"type": "string"}}}, {}),
        ({"type": "object", "properties": {"y": {"const": 1}}, "required": ["y"]}, {"y": 1}),
        ({"$ref": "#/$defs/node"}, {"next": None}),
    ],
)
@pytest.mark.parametrize("name", ["qwen3", "glm47", "gemma4", "llama4_pythonic"])
def test_the_number_is_that_of_the_shortest_value(name: str, schema: Any, shortest: Any) -> None:
    found = model(name)
    number = least(found, of_member(schema, **{"$defs": {"node": NODE}}))
    assert number == least(found, of_member({"const": shortest}))


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_each_format_that_masks_enforce_has_a_short_valid_text(name: str) -> None:
    schema = {"type": "string", "format": name}
    assert name in dict(FORMATS)
    for text in texts_of(schema):
        jsonschema_rs.validate(schema, text, validate_formats=True)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^(ab|c)+$", "c"),
        ("x{3}(y{2})?", "xxx"),
        ("^[^a-z]$", "-"),
        ("[\\s\\S]", "a"),
        ("(?=x)y", "y"),
        ("[", ""),
    ],
)
def test_a_short_match_of_a_pattern(pattern: str, text: str) -> None:
    assert short_match(pattern, "a") == text


def test_numbers_lie_at_the_bounds() -> None:
    assert {12, 13} <= {*numbers_of({"minimum": 12.5})}
    assert 21 in numbers_of({"minimum": 20, "multipleOf": 7})


@pytest.mark.parametrize(
    "value",
    [
        {"type": "string", "minLength": 10**9},
        {"type": "array", "items": {"type": "null"}, "minItems": 10**9},
        {"$ref": "#/$defs/d40"},
    ],
)
def test_a_call_of_more_than_the_maximum_length_has_no_number(value: Any) -> None:
    pairs = {
        f"d{n}": {
            "type": "object",
            "properties": {name: {"$ref": f"#/$defs/d{n - 1}"} for name in "xy"},
            "required": ["x", "y"],
        }
        for n in range(1, 41)
    }
    schema = of_member(value, **{"$defs": {"d0": {"const": "a"}, **pairs}})
    assert least(model("qwen3"), schema) is None
    assert least(model("qwen3"), of_member({"type": "string", "minLength": MAX_LENGTH - 50}))


def test_a_value_that_contains_itself_has_no_number() -> None:
    endless = {**NODE, "properties": {"next": {"$ref": "#/$defs/node"}}}
    schema = {"$ref": "#/$defs/node", "$defs": {"node": endless}}
    assert least(model("qwen3"), of_member(schema, **{"$defs": {"node": endless}})) is None


def test_a_custom_tool_reserves_the_text_around_its_input() -> None:
    found = model("qwen3")
    number = least(found, custom_parameters(Grammar("lark", 'start: "a"+')))
    assert number == least(found, json.loads(canonical_json(custom_parameters(None))))
    longer = least(found, custom_parameters(Grammar("regex", "[0-9]{20}")))
    assert number is not None
    assert longer is not None
    assert longer > number
