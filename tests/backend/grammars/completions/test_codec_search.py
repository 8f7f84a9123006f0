"""The search for a short completion where the obvious tokens lead nowhere."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

from tests.support.dialects.model import DialectModel
from toolgate_backend.grammars.compiled_grammar import MeasuredGrammar
from toolgate_backend.grammars.completions.json_texts import Scan
from toolgate_backend.grammars.engines.engine import Matcher
from toolgate_backend.tokens import masks
from toolgate_core.dialects.registry import DIALECTS

EMPTY_ARRAYS = {
    "type": "array",
    "items": {"type": "array", "items": {"type": "null"}, "maxItems": 0},
    "minItems": 2,
    "maxItems": 2,
}

NUMBER = {"type": "integer"}
OPEN = {
    "type": "object",
    "properties": {"b": NUMBER, "city": NUMBER},
    "required": ["b"],
    "additionalProperties": NUMBER,
}


def begun(model: DialectModel, grammar: MeasuredGrammar, text: str) -> Matcher:
    """A matcher that has read `text`, with the dialect's marks as text, after the grammar's own
    beginning."""
    vocabulary = model.vocabulary
    before, _ = vocabulary.form.grammar_texts(grammar.name, {})
    matcher = grammar.matcher()
    for token in vocabulary.literal_tokens(before + vocabulary.form.marks.encode(text)):
        assert matcher.accept(token), vocabulary.token_bytes[token]
    return matcher


def test_an_undeclared_member_can_be_ended_whose_value_has_several_items() -> None:
    """A token such as ` [],` ends a value and begins the next member."""
    model = DialectModel(DIALECTS["qwen3"])
    schema = {"type": "object", "additionalProperties": EMPTY_ARRAYS}
    matcher = begun(model, model.grammar("any", schema), '{"new name')
    path = model.data.completion.path(matcher, Scan(in_string=True))
    assert path is not None
    assert model.text(path).strip() == '": [[], []]}}'


def test_a_name_is_required_of_an_object_and_of_the_one_around_it() -> None:
    """The search begins in the inner object, and does not know how many are around it."""
    model = DialectModel(DIALECTS["qwen3"])
    names = ["a", "b", "c"]
    declared = {name: {"type": "integer"} for name in names}
    inner = {"type": "object", "properties": declared, "required": names}
    schema = inner | {"additionalProperties": inner}
    grammar = model.grammar("any", schema)
    matcher = begun(model, grammar, '{"x": {"')
    path = model.data.completion.path(matcher, Scan(in_string=True), grammar.hints)
    assert path is not None
    written = json.loads('{"x": {"' + model.text(path).strip().removesuffix("}"))
    assert sorted(written) == ["a", "b", "c", "x"]
    assert sorted(written["x"]) == names


def test_an_undeclared_argument_is_written_that_another_one_requires() -> None:
    """Arguments that nothing names can be repeated without end before it."""
    model = DialectModel(DIALECTS["kimi_k3"])
    schema = {
        "type": "object",
        "properties": {"k": {"type": "boolean"}},
        "dependentRequired": {"k": ["needed"]},
    }
    grammar = model.grammar("any", schema)
    matcher = begun(model, grammar, '<|open|>argument key="other')
    path = model.data.completion.path(matcher, hints=grammar.hints)
    assert path is not None
    assert 'argument key="needed"' in model.text(path)


def test_a_raw_text_is_ended_whose_pattern_any_text_can_begin() -> None:
    """The text of another hint can be written, too, but does not end this one."""
    model = DialectModel(DIALECTS["qwen3_coder"])
    patterns = {"foo": "(foo|bar)+", "at": r"^\S+@\S+$"}
    texts = {name: {"type": "string", "pattern": each} for name, each in patterns.items()}
    schema = {"type": "object", "properties": texts}
    grammar = model.grammar("any", schema)
    matcher = begun(model, grammar, "<parameter=at>\n<")
    path = model.data.completion.path(matcher, hints=grammar.hints)
    assert path is not None
    assert model.text(path).startswith("@a\n</parameter>")


@pytest.mark.parametrize(
    ("family", "text", "rest"),
    [
        ("lfm2_5", "ex", "=0, b=0)"),
        ("lfm2_5", "city=1, city", "1=0, b=0)"),  # `city` alone has been written
        ("lfm2_5", "ex=1,", " b=0)"),
        ("gemma4", "{ex", ":0,b:0}<tool_call|>"),
        ("gemma4", "{city:1,city", "1:0,b:0}<tool_call|>"),
    ],
)
def test_a_bare_name_is_ended_before_required_arguments(family: str, text: str, rest: str) -> None:
    """A required name could also be the rest of the bare one, and would still have to follow."""
    model = DialectModel(DIALECTS[family])
    grammar = model.grammar("any", OPEN)
    path = model.data.completion.path(begun(model, grammar, text), hints=grammar.hints)
    assert path is not None
    assert model.text(path) == rest


@pytest.mark.parametrize("family", ["lfm2_5", "gemma4"])
def test_many_numbers_are_written_where_an_undeclared_argument_may_follow_each(family: str) -> None:
    """The mask after a separator is that of free text."""
    model = DialectModel(DIALECTS[family])
    names = [f"p{at}" for at in range(30)]
    schema = OPEN | {"properties": dict.fromkeys(names, NUMBER), "required": names}
    assert model.grammar("any", schema).least_tokens is not None


@pytest.mark.parametrize("family", ["lfm2_5", "gemma4"])
@pytest.mark.parametrize(
    ("text", "written"),
    [
        ({"pattern": "^[a-f,:= ]{3,}x$"}, "aaax"),
        ({"format": "ipv6"}, "::1"),
        ({"minLength": 2, "maxLength": 2}, "aa|//"),
    ],
)
def test_a_string_may_have_names_separators_and_closers(
    family: str, text: dict[str, Any], written: str
) -> None:
    """The required `ab` counts as written only as a name."""
    model = DialectModel(DIALECTS[family])
    declared = {"ab": NUMBER, "text": {"type": "string", **text}}
    schema = OPEN | {"properties": declared, "required": ["text", "ab"]}
    grammar = model.grammar("any", schema)
    path = model.data.completion.path(grammar.matcher(), hints=grammar.hints)
    assert path is not None
    assert re.search(rf"\W({written})\W", model.text(path))


@pytest.mark.parametrize(("family", "mark"), [("spark2_5", "</tool_call>"), ("lfm2_5", "</think>")])
def test_values_spelled_like_marks_are_written_in_ordinary_tokens(family: str, mark: str) -> None:
    """llguidance's mask has the mark itself where the grammar continues with its text."""
    model = DialectModel(DIALECTS[family])
    token = model.vocabulary.marks.tokens[mark]
    schema = {
        "type": "object",
        "properties": {"in": {"type": "array", "items": {"const": mark}, "minItems": 1}},
        "required": ["in"],
    }
    grammar = model.grammar("any", schema)
    path = model.data.completion.path(grammar.matcher(), hints=grammar.hints)
    assert path is not None
    matcher, row = grammar.matcher(), np.zeros(model.vocabulary.size // 32, dtype=np.int32)
    refused = []
    for token_of_path in path:
        matcher.fill(row)
        if token in masks.unpack(row):
            if matcher.accept(token):
                matcher.rollback(1)
            else:
                refused.append(token)
        assert matcher.accept(token_of_path)
    assert refused == []
    assert mark in model.text(path)
