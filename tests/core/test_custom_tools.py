"""Definitions of custom tools."""

from __future__ import annotations

from typing import Any

import pytest

from toolgate_core.custom_tools import MAX_DEFINITION, Grammar, grammar_of
from toolgate_core.errors import InvalidRequest
from toolgate_core.tools import parse_tools

LARK = {"type": "grammar", "grammar": {"syntax": "lark", "definition": 'start: "a"'}}


def custom(name: Any = "shell", **fields: Any) -> dict[str, Any]:
    return {"type": "custom", "custom": {"name": name, **fields}}


def test_the_model_sees_a_function_with_one_text() -> None:
    (tool,) = parse_tools([custom(description="Runs a command.", format=LARK)])
    function = tool.definition["function"]
    assert tool.custom
    assert function["description"] == "Runs a command."
    assert function["parameters"]["required"] == ["input"]
    assert 'start: "a"' in function["parameters"]["properties"]["input"]["description"]


def test_the_grammar_is_part_of_the_canonical_parameters_and_the_hash() -> None:
    (plain,), (text,), (lark,) = (
        parse_tools([custom(**fields)])
        for fields in ({}, {"format": {"type": "text"}}, {"format": LARK})
    )
    assert plain.hash == text.hash != lark.hash
    assert grammar_of(plain.parameters) is None
    assert grammar_of(lark.parameters) == Grammar("lark", 'start: "a"')


def test_a_schema_cannot_have_a_grammar() -> None:
    text = {"type": "string", "x-toolgate-grammar": {"syntax": "lark", "definition": "start:"}}
    parameters = {"type": "object", "properties": {"input": text}}
    (tool,) = parse_tools(
        [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    )
    assert grammar_of(tool.parameters) is None


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"name": ""}, "tools[0].custom.name"),
        ({"description": 5}, "tools[0].custom.description"),
        ({"format": "lark"}, "tools[0].custom.format"),
        ({"format": {"type": "json"}}, "tools[0].custom.format.type"),
        ({"format": {"type": "grammar"}}, "tools[0].custom.format.grammar"),
        (
            {"format": {"type": "grammar", "grammar": {"syntax": "gbnf", "definition": "x"}}},
            "tools[0].custom.format.grammar.syntax",
        ),
        (
            {"format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "a\0"}}},
            "tools[0].custom.format.grammar.definition",
        ),
        (
            {"format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": ""}}},
            "tools[0].custom.format.grammar.definition",
        ),
        (
            {
                "format": {
                    "type": "grammar",
                    "grammar": {"syntax": "regex", "definition": "x" * (MAX_DEFINITION + 1)},
                }
            },
            "tools[0].custom.format.grammar.definition",
        ),
    ],
)
def test_invalid_definitions_are_refused(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        parse_tools([custom(**fields)])
    assert raised.value.param == param


def test_names_are_unique_over_both_kinds() -> None:
    with pytest.raises(InvalidRequest) as raised:
        parse_tools([{"type": "function", "function": {"name": "shell"}}, custom()])
    assert raised.value.param == "tools[1].custom.name"
