"""Texts that the grammars of arguments in nested tags accept and refuse."""

from __future__ import annotations

from typing import Any

import pytest

from tests.backend.grammars.codecs.forms import NESTED, NS, model, tag


@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize(
    ("schema", "value", "accepted"),
    [
        ({"type": "string"}, "x", True),
        ({"type": "string"}, "", True),
        ({"type": "string"}, " \n</a> 日本", True),
        ({"type": "string"}, "5", True),
        ({"type": "string", "minLength": 1}, "", False),
        ({"type": "string", "maxLength": 2}, "日本", True),
        ({"type": "string", "maxLength": 2}, "abc", False),
        ({"type": "string", "pattern": "^a.$"}, "ab", True),
        ({"type": "string", "pattern": "^a.$"}, "ba", False),
        ({"enum": ["Paris", ""]}, "", True),
        ({"enum": ["Paris", ""]}, "paris", False),
        ({"type": ["string", "null"]}, "x", True),
        ({"type": ["string", "null"]}, "null", False),
        ({"type": ["string", "integer"]}, "5", True),
        ({"type": ["string", "integer"]}, "5 apples", True),
        ({"enum": ["1", 2]}, "2", True),
        ({"enum": ["1", 2]}, "1", False),
        ({"type": "integer", "maximum": 5}, "6", False),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "True", False),
        ({"type": "array", "items": {"type": "integer"}}, tag("item", "1") * 2, True),
        ({"type": "array", "items": {"type": "integer"}}, "", True),
        ({"type": "array", "items": {"type": "integer"}}, tag("x", "1"), False),
        ({"type": ["string", "array"]}, "", True),
        ({"type": "object", "properties": {"k": {"type": "string"}}}, tag("k", "x"), True),
        ({"type": "object", "properties": {"k": {"type": "string"}}}, tag("l", "x"), False),
        ({"enum": [{"b": [1, "x"]}]}, None, True),
    ],
)
def test_texts(name: str, schema: Any, value: str | None, accepted: bool) -> None:
    made = model(name)
    grammar = made.grammar({"properties": {"a": schema}, "required": ["a"]})
    if value is None:
        value = tag("b", tag("item", "1"), tag("item", "x"))
    assert made.accepts(grammar, tag("a", value)) is accepted


def test_an_end_tag_has_the_name_of_its_begin_tag() -> None:
    made = model("nested_token")
    grammar = made.grammar({"properties": {"a": {"type": "integer"}}, "required": ["a"]})
    assert not made.accepts(grammar, f"{NS}<a>1{NS}</b>")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "null"},
        {"const": f"x{NS}"},
        {"type": "array", "items": {"type": "null"}, "minItems": 1},
    ],
)
def test_values_that_cannot_be_written_are_refused_by_name(schema: Any) -> None:
    made = model("nested_text")
    verdict, _ = made.verdict({"properties": {"a": schema}, "required": ["a"]})
    assert (verdict.status, verdict.pointer) == ("refused", "/properties/a")
    assert made.accepts(made.grammar({"properties": {"a": schema}}), "")


NAMES: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "integer"}}
LETTERS = NAMES | {"propertyNames": {"pattern": "^[a-z ]+$"}}
LISTED = NAMES | {"propertyNames": {"enum": ["a", "b"]}}
DECLARED = {"properties": {"id": {"type": "string"}, "No": {"type": "string"}}, "required": ["id"]}


@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize(
    ("schema", "members", "accepted"),
    [
        (LETTERS, "", True),
        (LETTERS, tag("ab", "1"), False),  # only names that the schema has are written
        (LETTERS | DECLARED, tag("id", "x"), True),
        (LETTERS | DECLARED, tag("id", "x") + tag("No", "x"), False),
        (LETTERS | DECLARED, "", False),
        (LETTERS | {"required": ["id"]}, tag("id", "1"), True),
        (LETTERS | {"required": ["id"]}, tag("id", "x"), False),
        (LISTED, tag("a", "1") + tag("b", "2"), True),
        (LISTED, tag("c", "1"), False),
    ],
)
def test_names_by_pattern_and_by_list(name: str, schema: Any, members: str, accepted: bool) -> None:
    made = model(name)
    for parameters, text in [
        ({"properties": {"o": schema}, "required": ["o"]}, tag("o", members)),
        (schema, members),
    ]:
        verdict, grammar = made.verdict(parameters)
        assert grammar is not None, verdict
        assert not verdict.residual
        assert made.accepts(grammar, text) is accepted


def test_recursion_through_null_ends() -> None:
    node = {
        "type": "object",
        "properties": {
            "v": {"type": "integer"},
            "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
        },
        "required": ["v"],
    }
    schema = {"properties": {"l": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}
    made = model("nested_token")
    grammar = made.grammar(schema)
    assert made.accepts(grammar, tag("l", tag("v", "1"), tag("next", tag("v", "2"))))
    node["required"] = ["v", "next"]
    grammar = made.grammar(schema)
    assert made.accepts(grammar, "")
    assert not made.accepts(grammar, tag("l", tag("v", "1")))
