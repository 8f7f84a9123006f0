"""Grammars of arguments with bare keys, walked at random and read by regular expressions."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest

from tests.support.dialects.codec_schemas import CODEC_SCHEMAS
from tests.support.dialects.codec_walks import CodecModel
from tests.support.grids import sampled
from toolgate_core.dialects.codecs import GemmaValues
from toolgate_core.dialects.dialect import ARGUMENTS, NAME, Calls, Dialect

Q = '<|"|>'
CODECS = {
    "tokens": GemmaValues(Q),
    "text": GemmaValues("<escape>"),
    "no_braces": GemmaValues(Q, braces=False),
}
TOKENS = {"tokens": (Q, "<tool_call|>"), "text": (), "no_braces": (Q, "<tool_call|>")}
HOSTILE = [
    '"', "'", "\\", "<|", "<esc", ",", ":", "}", "]", "{", "[", "\n", "日本", "🎉", ",a:", "null",
    "true", "-", "a:", "{}", "[]", "}}",
]  # fmt: skip


@cache
def model(name: str) -> CodecModel:
    codec = CODECS[name]
    around = ("", "") if codec.braces else ("{", "}")
    call = ("<|tool_call>call:", NAME, around[0], ARGUMENTS, f"{around[1]}<tool_call|>")
    parts = tuple(part for part in call if part)
    return CodecModel(Dialect(name="made-up", calls=Calls(call=parts, codec=codec)), TOKENS[name])


def read(text: str, quote: str) -> Any:
    """The arguments: every second part between quote marks is a string, the others are JSON with
    bare keys."""
    parts = text.split(quote)
    assert len(parts) % 2
    written = [
        json.dumps(part) if at % 2 else re.sub(r"(?<=[{,])([A-Za-z_][\w.-]*):", r'"\1":', part)
        for at, part in enumerate(parts)
    ]
    return json.loads("".join(written))


@pytest.mark.exhaustive
@sampled("name, schema_name", CODECS, CODEC_SCHEMAS, one_in=2)
def test_random_walks_give_valid_arguments(name: str, schema_name: str) -> None:
    schema, codec = CODEC_SCHEMAS[schema_name], CODECS[name]
    made, hostile = model(name), [*HOSTILE, codec.quote, codec.quote + ","]
    assert not made.verdict(schema)[0].residual
    walks = [*made.valid_walks(schema, 4, hostile)]
    for arguments, text in walks:
        assert arguments == read(text if codec.braces else f"{{{text}}}", codec.quote), text
    assert walks


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize(
    ("schema", "value", "accepted"),
    [
        ({"type": "string"}, "QxQ", True),
        ({"type": "string"}, "QQ", True),
        ({"type": "string"}, 'Qit\'s "b" \\ \n日本Q', True),
        ({"type": "string"}, '"x"', False),
        ({"type": "string"}, "Qx", False),
        ({"type": "string", "maxLength": 2}, "Q日本Q", True),
        ({"type": "string", "maxLength": 2}, "QabcQ", False),
        ({"type": "string", "minLength": 1}, "QQ", False),
        ({"type": "string", "pattern": "^a.$"}, "QabQ", True),
        ({"type": "string", "pattern": "^a.$"}, "QbaQ", False),
        ({"enum": ["Paris", ""]}, "QQ", True),
        ({"enum": ["Paris", ""]}, "QparisQ", False),
        ({"enum": [{"b": [1], "A": "x\x7f"}]}, "{A:Qx\x7fQ,b:[1]}", True),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "True", False),
        ({"type": "null"}, "null", True),
        ({"type": "integer", "maximum": 5}, "6", False),
        ({"type": "array", "items": {"type": "integer"}}, "[1,2]", True),
        ({"type": "array", "items": {"type": "integer"}}, "[1, 2]", False),
        ({"type": "object", "additionalProperties": True}, "{k:[{l:null}]}", True),
        ({"type": "object", "properties": {"a b": {"type": "null"}}}, "{Qa bQ:null}", True),
    ],
)
def test_texts(name: str, schema: Any, value: str, accepted: bool) -> None:
    made, codec = model(name), CODECS[name]
    grammar = made.grammar({"properties": {"a": schema}, "required": ["a"]})
    text = f"a:{value.replace('Q', codec.quote)}"
    assert made.accepts(grammar, f"{{{text}}}" if codec.braces else text) is accepted


def test_members_are_sorted_as_in_chat_templates() -> None:
    properties = {name: {"type": "integer"} for name in ("b", "A", "c")}
    schema = {"properties": {"o": {"properties": properties, "type": "object"}}}
    made = model("tokens")
    grammar = made.grammar(schema)
    assert made.accepts(grammar, "{o:{A:1,b:2,c:3}}")
    assert not made.accepts(grammar, "{o:{b:2,A:1,c:3}}")


def test_arguments_come_in_any_order_and_required_ones_must_come() -> None:
    made = model("tokens")
    names = [f"p{at}" for at in range(12)]
    schema = {"properties": {name: {"type": "integer"} for name in names}, "required": names[:2]}
    grammar = made.grammar(schema)
    assert made.accepts(grammar, "{p7:1,p1:2,p0:3,p11:4}")
    assert not made.accepts(grammar, "{p7:1,p1:2}")
    assert not made.accepts(grammar, "{}")


def test_undeclared_arguments() -> None:
    made = model("tokens")
    declared = {"properties": {"a": {"type": "null"}}, "required": ["a"]}
    grammar = made.grammar({**declared, "additionalProperties": {"type": "boolean"}})
    assert made.accepts(grammar, "{b:true,a:null,ab:false}")
    assert not made.accepts(grammar, "{a:null,a:true}")


NAMES: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "integer"}}
LETTERS = NAMES | {"propertyNames": {"pattern": "^[a-z ]+$"}}
LISTED = NAMES | {"propertyNames": {"enum": ["a", "b c"]}}
DECLARED = {"properties": {"id": {"type": "null"}, "No": {"type": "null"}}, "required": ["id"]}


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize(
    ("schema", "members", "accepted"),
    [
        (LETTERS, "", True),
        (LETTERS, "ab:1,c:2", True),
        (LETTERS, "ab:1,a1:2", False),
        (LETTERS, "a b:1", False),
        (LETTERS, "Qa 1Q:1", False),
        (LETTERS, "QabQ:1", False),
        (LETTERS, "ab:null", False),
        (LISTED, "a:1,Qb cQ:2", True),
        (LISTED, "c:1", False),
    ],
)
def test_names_by_pattern_and_by_list(name: str, schema: Any, members: str, accepted: bool) -> None:
    made, codec = model(name), CODECS[name]
    inner = members.replace("Q", codec.quote)
    for parameters, text in [
        ({"properties": {"o": schema}, "required": ["o"]}, f"o:{{{inner}}}"),
        (schema, inner),
    ]:
        verdict, grammar = made.verdict(parameters)
        assert grammar is not None, verdict
        assert not verdict.residual
        assert made.accepts(grammar, f"{{{text}}}" if codec.braces else text) is accepted


def test_names_by_pattern_beside_declared_ones_are_left_to_validation() -> None:
    verdict, grammar = model("tokens").verdict(LETTERS | DECLARED)
    assert grammar is not None
    assert [one.pointer for one in verdict.residual] == ["/propertyNames"]


def test_names_that_only_the_mark_could_write_are_not_written() -> None:
    made = model("text")
    schema = NAMES | {"propertyNames": {"pattern": "^<escape>$"}}
    assert made.accepts(made.grammar({"properties": {"o": schema}, "required": ["o"]}), "{o:{}}")


@pytest.mark.parametrize("name", ["tokens", "text"])
def test_values_that_cannot_be_written_are_refused_by_name(name: str) -> None:
    made, quote = model(name), CODECS[name].quote
    only = {"properties": {"a": {"enum": [f"x{quote}"]}}, "required": ["a"]}
    verdict, _ = made.verdict(only)
    assert (verdict.status, verdict.pointer) == ("refused", "/properties/a")
    several = {"properties": {"a": {"enum": [f"x{quote}", 5]}}, "required": ["a"]}
    grammar = made.grammar(several)
    assert made.accepts(grammar, "{a:5}")


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
