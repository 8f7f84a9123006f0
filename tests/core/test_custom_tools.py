"""Custom tools: their definitions, and the input of their calls as plain text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgate_core.custom_tools import MAX_DEFINITION, CustomCalls, Grammar, InputText, grammar_of
from toolgate_core.deltas import ArgumentsDelta, CallEnd, CallStart, Finish, InputDelta
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


def read(text: str, cuts: list[int]) -> tuple[str, str]:
    """The text before the call's end, and the rest."""
    reader, parts, at = InputText(), [], 0
    for cut in [*sorted(cut % (len(text) + 1) for cut in cuts), len(text)]:
        parts.append(reader.feed(text[at:cut]))
        at = cut
    return "".join(parts), reader.last()


@given(st.text(), st.lists(st.integers(0, 10_000)), st.booleans())
def test_any_input_is_read_at_every_split(text: str, cuts: list[int], ascii_only: bool) -> None:
    before, last = read(json.dumps({"input": text}, ensure_ascii=ascii_only), cuts)
    assert before + last == text
    assert last == text[-1:]


@pytest.mark.parametrize("written", ['{"input": "a\\/b"}', '{ "input":"a\\u002fb" }'])
def test_every_escape_of_json_is_read(written: str) -> None:
    assert "".join(read(written, [1, 9, 12])) == "a/b"


@pytest.mark.parametrize("half", ["\\ud83d", "\\ud83dx", "\\ude00", "\\ud83d\\ud83d"])
def test_half_of_a_surrogate_pair_becomes_a_replacement_character(half: str) -> None:
    text = "".join(read(f'{{"input": "a{half}"}}', [14]))
    assert "\N{REPLACEMENT CHARACTER}" in text
    text.encode()


def test_a_cut_input_lacks_its_last_character() -> None:
    calls = CustomCalls(["shell"])
    events = calls.converted(
        [CallStart(0, "shell"), ArgumentsDelta(0, '{"input": "ls -l'), Finish("length", call="cut")]
    )
    assert events == [
        CallStart(0, "shell", custom=True),
        InputDelta(0, "ls -"),
        Finish("length", call="cut"),
    ]


def test_calls_of_functions_are_unchanged() -> None:
    events = [CallStart(0, "look"), ArgumentsDelta(0, '{"input": "a"}'), CallEnd(0)]
    assert CustomCalls(["shell"]).converted([*events]) == events
