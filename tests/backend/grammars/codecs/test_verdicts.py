"""What the grammars of arguments cannot write is refused by name or left to validation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.dialects.codec_schemas import CODEC_SCHEMAS

from .forms import NS, Q, model

S = {"type": "string"}
NUMBER_OR_TEXT = {"anyOf": [S, {"type": "integer", "minimum": 3}]}


@pytest.mark.parametrize(
    ("name", "argument", "schema"),
    [
        ("tokens", "a", {"enum": [f"x{Q}"]}),
        ("text", "a", {"enum": ["x<escape>"]}),
        ("nested_text", "a", {"type": "null"}),
        ("nested_text", "a", {"const": f"x{NS}"}),
        ("nested_text", "a", {"type": "array", "items": {"type": "null"}, "minItems": 1}),
        ("double", "a b", S),
        ("lines", "a", {"enum": ["x</parameter>"]}),
        ("lines", "a>b", S),
    ],
)
def test_values_that_cannot_be_written_are_refused_by_name(
    name: str, argument: str, schema: dict[str, Any]
) -> None:
    made = model(name)
    verdict, _ = made.verdict({"properties": {argument: schema}, "required": [argument]})
    assert (verdict.status, verdict.pointer) == ("refused", f"/properties/{argument}")
    optional = made.grammar({"properties": {argument: schema}})
    assert made.accepts(optional, "{}" if name in ("tokens", "text") else "")


@pytest.mark.parametrize(
    ("name", "schema", "keyword"),
    [
        ("lines", NUMBER_OR_TEXT, "anyOf/1/minimum"),
        ("nested_text", NUMBER_OR_TEXT, "anyOf/1/minimum"),
        # A pattern that raw text cannot have, and a length beyond what masks count.
        ("lines", {"type": "string", "pattern": "^(a(^b|c))+$"}, "pattern"),
        ("lines", {"type": ["string", "null"], "maxLength": 4096}, "maxLength"),
    ],
)
def test_keywords_that_masks_cannot_hold_are_left_to_validation(
    name: str, schema: dict[str, Any], keyword: str
) -> None:
    verdict, grammar = model(name).verdict({"properties": {"a": schema}, "required": ["a"]})
    assert grammar is not None
    assert [one.pointer for one in verdict.residual] == [f"/properties/a/{keyword}"]


def test_overlapping_patterns_of_names_are_left_to_validation() -> None:
    patterns = {"^x": {"type": "integer"}, "a$": S}
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


def test_a_string_cannot_contain_the_text_of_the_mark() -> None:
    made = model("tokens")
    grammar = made.grammar(CODEC_SCHEMAS["text"])
    quote = made.tokens_of(Q)
    matcher = grammar.matcher()
    before, _ = made.form.grammar_texts("f")
    head = made.vocabulary.literal_tokens(before)
    spelled = [*made.vocabulary.literal_tokens("<|"), *made.vocabulary.literal_tokens('"|>')]
    for token in [*head, *made.tokens_of("{a:"), *quote, *spelled[:-1]]:
        assert matcher.accept(token)
    assert not matcher.accept(spelled[-1])
