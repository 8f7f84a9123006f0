"""Texts that the grammars of arguments in tags accept and refuse."""

from __future__ import annotations

from typing import Any

import pytest

from tests.backend.grammars.codecs.tagged_forms import model


def qwen(**values: str) -> str:
    return "".join(f"<parameter={k}>\n{v}\n</parameter>\n" for k, v in values.items())


@pytest.mark.parametrize(
    ("schema", "text", "accepted"),
    [
        ({"type": "string"}, qwen(a="x"), True),
        ({"type": "string"}, qwen(a=""), True),
        ({"type": "string"}, qwen(a="a\n</parameter>"), False),
        ({"type": "string"}, qwen(a="x") + qwen(a="x"), False),
        ({"type": "string"}, "", False),
        ({"enum": ["Paris"]}, qwen(a="Paris"), True),
        ({"enum": ["Paris"]}, qwen(a=" Paris"), False),
        ({"type": ["string", "null"]}, qwen(a="null"), True),
        ({"anyOf": [{"type": "string", "minLength": 5}, {"type": "null"}]}, qwen(a="null"), True),
        ({"anyOf": [{"type": "string", "minLength": 5}, {"type": "null"}]}, qwen(a="nul"), False),
        ({"type": ["string", "integer"]}, qwen(a="5"), True),
        ({"type": ["string", "integer"]}, qwen(a="5 apples"), True),
        ({"type": ["string", "object"]}, qwen(a="{x"), False),
        ({"type": "integer", "maximum": 5}, qwen(a="6"), False),
        ({"type": "string", "pattern": "^a"}, qwen(a="ab"), True),
        ({"type": "string", "pattern": "^a"}, qwen(a="ba"), False),
        ({"type": "string", "format": "ipv6"}, qwen(a="fe80::1"), True),
        ({"type": "string", "format": "ipv6"}, qwen(a="fe80::1::2"), False),
        ({"type": "string", "format": "uri"}, qwen(a="https://a.example/b?c#d"), True),
        ({"type": "string", "format": "duration"}, qwen(a="P1DT2H"), True),
        ({"type": "string", "format": "duration"}, qwen(a="1 day"), False),
    ],
)
def test_texts(schema: Any, text: str, accepted: bool) -> None:
    made = model("lines")
    grammar = made.grammar({"properties": {"a": schema}, "required": ["a"]})
    assert made.accepts(grammar, text) is accepted


def test_arguments_come_in_any_order_and_required_ones_must_come() -> None:
    made = model("lines")
    names = [f"p{at}" for at in range(12)]
    schema = {"properties": {name: {"type": "string"} for name in names}, "required": names[:2]}
    grammar = made.grammar(schema)
    assert made.accepts(grammar, qwen(p7="x", p1="y", p0="z", p11=""))
    assert not made.accepts(grammar, qwen(p7="x", p1="y"))


def test_more_arguments_than_bits_come_in_the_order_of_the_schema() -> None:
    made = model("lines")
    properties = {f"p{at}": {"type": "string"} for at in range(70)}
    grammar = made.grammar({"properties": properties, "required": ["p3"]})
    assert made.accepts(grammar, qwen(p1="x", p3="y", p69="z"))
    assert not made.accepts(grammar, qwen(p3="x", p1="y"))
    assert not made.accepts(grammar, qwen(p1="x"))


def test_values_that_cannot_be_written_are_refused_by_name() -> None:
    made = model("lines")
    only = {"properties": {"a": {"enum": ["x</parameter>"]}}, "required": ["a"]}
    verdict, _ = made.verdict(only)
    assert (verdict.status, verdict.pointer) == ("refused", "/properties/a")
    verdict, _ = made.verdict({"properties": {"a>b": {"type": "string"}}, "required": ["a>b"]})
    assert (verdict.status, verdict.pointer) == ("refused", "/properties/a>b")
    several = {"properties": {"a": {"enum": ["x</parameter>", "y"]}}, "required": ["a"]}
    grammar = made.grammar(several)
    assert made.accepts(grammar, qwen(a="y"))
    assert not made.accepts(grammar, qwen(a="x</parameter>"))


def test_names_of_arguments_by_pattern() -> None:
    made = model("lines")
    schema = {
        "propertyNames": {"pattern": "^[a-z ]+$"},
        "additionalProperties": {"type": "integer"},
    }
    verdict, grammar = made.verdict(schema)
    assert grammar is not None
    assert not verdict.residual
    assert made.accepts(grammar, qwen(ab="1", c="2"))
    assert not made.accepts(grammar, qwen(a1="2"))
    assert not made.accepts(grammar, qwen(ab="y"))


def test_arguments_by_patterns_are_not_written() -> None:
    """Their types depend on their names."""
    made = model("lines")
    verdict, grammar = made.verdict(
        {"patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False}
    )
    assert grammar is not None
    assert not verdict.residual
    assert made.accepts(grammar, "")
    assert not made.accepts(grammar, qwen(xa="1"))


def test_bounds_of_a_number_beside_a_string_are_left_to_validation() -> None:
    either = {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 3}]}
    verdict, grammar = model("lines").verdict({"properties": {"a": either}})
    assert grammar is not None
    assert [one.pointer for one in verdict.residual] == ["/properties/a/anyOf/1/minimum"]


def test_a_pattern_that_raw_text_cannot_have_is_left_to_validation() -> None:
    schema = {"properties": {"a": {"type": "string", "pattern": "^(a(^b|c))+$"}}, "required": ["a"]}
    verdict, grammar = model("lines").verdict(schema)
    assert grammar is not None
    assert [one.pointer for one in verdict.residual] == ["/properties/a/pattern"]


def test_a_length_beyond_what_masks_count_is_left_to_validation() -> None:
    schema = {"properties": {"a": {"type": ["string", "null"], "maxLength": 4096}}}
    verdict, grammar = model("lines").verdict(schema)
    assert grammar is not None
    assert [one.pointer for one in verdict.residual] == ["/properties/a/maxLength"]
