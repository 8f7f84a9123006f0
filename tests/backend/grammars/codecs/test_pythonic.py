"""Texts that the grammars of arguments as a Python call accept and refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.backend.grammars.codecs.forms import PYTHONIC, model


@pytest.mark.parametrize(
    ("schema", "text", "accepted"),
    [
        ({"type": "string"}, "a='x'", True),
        ({"type": "string"}, 'a="x"', True),
        ({"type": "string"}, "a=''", True),
        ({"type": "string"}, "a='it\\'s'", True),
        ({"type": "string"}, 'a="it\'s"', True),
        ({"type": "string"}, "a='a\nb'", False),
        ({"type": "string"}, "a='\\d'", False),
        ({"type": "string"}, 'a="\\/"', False),
        ({"type": "string"}, "a='x", False),
        ({"type": "string"}, "a=x", False),
        ({"type": "string", "maxLength": 2}, "a='\\n\\n'", True),
        ({"type": "string", "maxLength": 2}, "a='abc'", False),
        ({"type": "string", "pattern": "^a.$"}, "a='ab'", True),
        ({"type": "string", "pattern": "^a.$"}, 'a="a\'"', True),
        ({"type": "string", "pattern": "^a.$"}, "a='abc'", False),
        ({"type": "string", "format": "uuid"}, "a='7d444840-9dc0-11d1-b245-5ffdce74fad2'", True),
        ({"enum": ["\x7f\x01"]}, "a='\x7f\\x01'", True),
        ({"enum": ["Paris"]}, "a='paris'", False),
        ({"type": "boolean"}, "a=True", True),
        ({"type": "boolean"}, "a=true", False),
        ({"type": "null"}, "a=None", True),
        ({"type": "integer", "maximum": 5}, "a=6", False),
        ({"type": "array", "items": {"type": "integer"}}, "a=[1, 2]", True),
        ({"type": "array", "items": {"type": "integer"}}, "a=[1,2]", False),
        ({"type": "object", "additionalProperties": True}, "a={'k': [{'l': None}]}", True),
        ({"type": "string"}, "a='x', a='y'", False),
        ({"type": "string"}, "", False),
        ({"type": "string"}, "b='x'", False),
    ],
)
def test_texts(schema: Any, text: str, accepted: bool) -> None:
    made = model("double")
    grammar = made.grammar({"properties": {"a": schema}, "required": ["a"]})
    assert made.accepts(grammar, text) is accepted


def test_objects_are_json() -> None:
    schema = {"properties": {"o": {"type": "object", "properties": {"k": {"type": "boolean"}}}}}
    made = model("json_objects")
    grammar = made.grammar(schema)
    assert made.accepts(grammar, 'o={"k": true}')
    assert not made.accepts(grammar, "o={'k': True}")


def test_arguments_have_a_separator() -> None:
    made = model("double")
    grammar = made.grammar({"properties": {name: {"type": "integer"} for name in "ab"}})
    assert made.accepts(grammar, "a=1, b=2")
    assert not made.accepts(grammar, "a=1 b=2")


def test_undeclared_arguments() -> None:
    made = model("double")
    declared = {"properties": {"a": {"type": "string"}}, "required": ["a"]}
    grammar = made.grammar({**declared, "additionalProperties": {"type": "boolean"}})
    assert made.accepts(grammar, "b=True, a='x', ab=False")
    assert not made.accepts(grammar, "a='x', a=True")
    assert not made.accepts(grammar, "b=True")


def test_a_name_that_cannot_be_written_is_refused() -> None:
    made = model("double")
    verdict, _ = made.verdict({"properties": {"a b": {"type": "string"}}, "required": ["a b"]})
    assert (verdict.status, verdict.pointer) == ("refused", "/properties/a b")
    grammar = made.grammar({"properties": {"a b": {"type": "string"}, "c": {"type": "null"}}})
    assert made.accepts(grammar, "c=None")
    assert made.accepts(grammar, "")


def test_keywords_of_python_can_be_names() -> None:
    made = model("double")
    grammar = made.grammar({"properties": {"from": {"type": "integer"}}, "required": ["from"]})
    assert made.accepts(grammar, "from=1")


NAMES: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "integer"}}
LETTERS = NAMES | {"propertyNames": {"pattern": "^[a-z ]+$"}}
LISTED = NAMES | {"propertyNames": {"enum": ["a", "b c"]}}
DECLARED = {"properties": {"id": {"type": "null"}, "No": {"type": "null"}}, "required": ["id"]}


@pytest.mark.parametrize(
    ("schema", "value", "accepted"),
    [
        (LETTERS, {}, True),
        (LETTERS, {"ab": 1, "a b": 2}, True),
        (LETTERS, {"ab": 1, "a1": 2}, False),
        (LETTERS, {"": 1}, False),
        (LETTERS, {"a": None}, False),
        (LETTERS | DECLARED, {"id": None, "ab": 1}, True),
        (LETTERS | DECLARED, {"id": None, "id ": 1}, True),
        (LETTERS | DECLARED, {"id": 1}, False),
        (LETTERS | DECLARED, {"ab": 1}, False),
        (LETTERS | DECLARED, {"id": None, "No": None}, False),
        (LETTERS | {"required": ["id"]}, {"id": 1, "x": 2}, True),
        (LETTERS | {"required": ["id"]}, {"x": 2}, False),
        (LISTED, {"a": 1, "b c": 2}, True),
        (LISTED, {"c": 1}, False),
    ],
)
@pytest.mark.parametrize("name", PYTHONIC)
def test_names_by_pattern_and_by_list(
    name: str, schema: Any, value: dict[str, Any], accepted: bool
) -> None:
    made = model(name)
    verdict, grammar = made.verdict({"properties": {"o": schema}, "required": ["o"]})
    assert grammar is not None, verdict
    assert not verdict.residual
    written = [json.dumps(value)]
    if name == "double":
        written = [repr(value), written[0].replace("null", "None")]
    for text in written:
        assert made.accepts(grammar, f"o={text}") is accepted


def test_names_of_arguments_by_pattern() -> None:
    made = model("double")
    verdict, grammar = made.verdict(LETTERS | DECLARED)
    assert grammar is not None
    assert not verdict.residual
    assert made.accepts(grammar, "ab=1, id=None, c=2")
    assert not made.accepts(grammar, "id=None, a1=2")
    assert not made.accepts(grammar, "id=None, a b=2")
    assert not made.accepts(grammar, "id=None, id=2")
    digits = NAMES | {"propertyNames": {"pattern": "^ [0-9]+$"}}
    assert made.accepts(made.grammar(digits), "")


def test_overlapping_patterns_of_names_are_left_to_validation() -> None:
    patterns = {"^x": {"type": "integer"}, "a$": {"type": "string"}}
    inner = {"type": "object", "patternProperties": patterns}
    verdict, grammar = model("double").verdict({"properties": {"o": inner}, "required": ["o"]})
    assert grammar is not None
    assert "/properties/o/patternProperties" in [one.pointer for one in verdict.residual]


def test_a_combination_of_objects_is_enforced_or_left_to_validation() -> None:
    common = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    node = {
        "type": "object",
        "properties": {"b": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
        "required": ["b"],
    }
    both = {"allOf": [common, {"$ref": "#/$defs/node"}]}
    made = model("double")
    verdict, grammar = made.verdict({**both, "type": "object", "$defs": {"node": node}})
    assert grammar is not None
    assert verdict.residual or not made.accepts(grammar, "b=[]")
    assert made.accepts(grammar, "a=1, b=[]")
