"""Grammars of arguments as a Python call, walked at random and read by Python's own parser."""

from __future__ import annotations

import ast
import json
from functools import cache
from typing import Any

import pytest

from tests.support.dialects.codec_schemas import CODEC_SCHEMAS
from tests.support.dialects.codec_walks import CodecModel
from tests.support.grids import sampled
from toolgate_core.dialects.codecs import Pythonic
from toolgate_core.dialects.dialect import ARGUMENTS, NAME, Calls, Dialect

CODECS = {
    "double": Pythonic(),
    "json_objects": Pythonic(quote="'", json_objects=True),
}
HOSTILE = [
    "'", '"', "\\", "\\'", '\\"', ")", ")]", ", ", "', a=1", '", "a": ', "}", "]", "\n", "\\n",
    "日本", "🎉", "\\u00", "\\x41", "{}", "[]", "True", "null", "-", "<|end|>", "=", "#",
    "a='",
]  # fmt: skip


@cache
def model(name: str) -> CodecModel:
    calls = Calls(
        begin="[", call=(NAME, "(", ARGUMENTS, ")"), separator=", ", end="]", codec=CODECS[name]
    )
    return CodecModel(Dialect(name="made-up", calls=calls), ["<|end|>"])


class _Words(ast.NodeTransformer):
    """Words of JSON as constants."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Constant({"true": True, "false": False, "null": None}[node.id])


def by_python(text: str, *, json_words: bool) -> dict[str, Any]:
    # Keywords such as `from` cannot be names of arguments in Python.
    text = text.replace("from=", "from_=") if text.startswith("from=") else text
    text = text.replace(", from=", ", from_=")
    call = ast.parse(f"f({text})", mode="eval").body
    assert isinstance(call, ast.Call)
    assert not call.args
    found = {}
    for each in call.keywords:
        value = _Words().visit(each.value) if json_words else each.value
        found[str(each.arg).rstrip("_")] = ast.literal_eval(value)
    return found


@pytest.mark.exhaustive
@sampled("name, schema_name", CODECS, CODEC_SCHEMAS, one_in=2)
def test_random_walks_give_valid_arguments(name: str, schema_name: str) -> None:
    schema = CODEC_SCHEMAS[schema_name]
    made = model(name)
    assert not made.verdict(schema)[0].residual
    walks = [*made.valid_walks(schema, 8, HOSTILE)]
    for arguments, text in walks:
        assert arguments == by_python(text, json_words=name == "json_objects"), text
    assert walks


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


def test_arguments_come_in_any_order_and_required_ones_must_come() -> None:
    made = model("double")
    names = [f"p{at}" for at in range(12)]
    schema = {"properties": {name: {"type": "integer"} for name in names}, "required": names[:2]}
    grammar = made.grammar(schema)
    assert made.accepts(grammar, "p7=1, p1=2, p0=3, p11=4")
    assert not made.accepts(grammar, "p7=1, p1=2")
    assert not made.accepts(grammar, "p0=1 p1=2")


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
        (LISTED, {"a": 1, "b c": 2}, True),
        (LISTED, {"c": 1}, False),
    ],
)
@pytest.mark.parametrize("name", CODECS)
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
    verdict, grammar = made.verdict(LETTERS)
    assert grammar is not None
    assert not verdict.residual
    assert made.accepts(grammar, "ab=1, c=2")
    assert not made.accepts(grammar, "a1=2")
    assert not made.accepts(grammar, "a b=2")
    digits = NAMES | {"propertyNames": {"pattern": "^ [0-9]+$"}}
    assert made.accepts(made.grammar(digits), "")


def test_names_by_pattern_beside_declared_ones_are_left_to_validation() -> None:
    verdict, grammar = model("double").verdict(LETTERS | DECLARED)
    assert grammar is not None
    assert [one.pointer for one in verdict.residual] == ["/propertyNames"]


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
