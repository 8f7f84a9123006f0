"""Tools and custom tools."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import tools
from toolgate_core.custom_tools import MAX_DEFINITION, CustomCalls, Grammar, InputText, grammar_of
from toolgate_core.deltas import ArgumentsDelta, CallEnd, CallStart, Finish, InputDelta
from toolgate_core.errors import InvalidRequest
from toolgate_core.schema.canonical import EMPTY_PARAMETERS
from toolgate_core.tools import parse_tools

CASES = json.loads(Path(__file__).with_name("tools.json").read_text())


def tool(name, parameters):
    function = {"name": name, "parameters": parameters}
    [parsed] = parse_tools([{"type": "function", "function": function}])
    return parsed


@pytest.mark.parametrize("more", [{}, {"required": [], "title": "now"}])
def test_a_function_without_declared_parameters_accepts_no_arguments(more):
    schema = {"type": "object", "properties": {}, **more}
    left_out = {"type": "function", "function": {"name": "now"}}
    declared = {"type": "function", "function": {"name": "now", "parameters": schema}}
    [tool], [without] = parse_tools([declared]), parse_tools([left_out])
    assert tool.parameters == EMPTY_PARAMETERS
    assert tool.hash == without.hash
    [opened] = parse_tools([declared], open_objects=True)
    assert "additionalProperties" not in opened.parameters


def test_an_object_without_declared_properties_accepts_any_properties():
    for schema in ({"type": "object"}, {"properties": {}, "additionalProperties": True}):
        found = tool("f", schema)
        assert found.parameters == {"type": "object"} | schema


LONG = {"syntax": "regex", "definition": "x" * (MAX_DEFINITION + 1)}
TOO_LONG = {
    "type": "custom",
    "custom": {"name": "a", "format": {"type": "grammar", "grammar": LONG}},
}


@pytest.mark.parametrize(
    ("entries", "param"),
    [*CASES["refused"], ([TOO_LONG], "tools[0].custom.format.grammar.definition")],
)
def test_the_error_names_the_invalid_part(entries, param):
    for _ in range(2):  # the second time from the cache
        with pytest.raises(InvalidRequest) as refused:
            parse_tools(entries)
        assert refused.value.param == param


def test_a_tool_that_is_defined_twice_counts_once():
    found = parse_tools([tools.TAGS, tools.WEATHER, tools.TAGS])
    assert [tool.param for tool in found] == [
        "tools[0].function.parameters",
        "tools[1].function.parameters",
    ]


def test_invalid_tools_can_be_left_out():
    wrong = tools.tool("wrong", {})
    wrong["function"]["parameters"]["type"] = "array"
    other = {**tools.TAGS, "function": tools.TAGS["function"] | {"description": "Another tool."}}
    nameless = {"type": "function", "function": {"name": "two words"}}
    errors = {}
    found = parse_tools(
        [tools.TAGS, wrong, other, nameless, tools.WEATHER], on_invalid=errors.__setitem__
    )
    assert [tool.name for tool in found] == [tools.TAGS["function"]["name"], "get_weather"]
    assert {name: error.param for name, error in errors.items()} == {
        "wrong": "tools[1].function.parameters",
        "tools[2]": "tools[2].function.name",
        "tools[3]": "tools[3].function.name",
    }


@pytest.mark.parametrize(("strict", "read"), [(None, False), (False, False), (True, True)])
def test_strict_is_parsed(strict, read):
    entry = {**tools.TAGS, "function": tools.TAGS["function"] | {"strict": strict}}
    assert parse_tools([entry])[0].strict is read


LARK = {"type": "grammar", "grammar": {"syntax": "lark", "definition": 'start: "a"'}}


def custom(name="shell", **fields):
    return {"type": "custom", "custom": {"name": name, **fields}}


def test_the_model_sees_a_function_with_one_text():
    (tool,) = parse_tools([custom(description="Runs a command.", format=LARK)])
    function = tool.definition["function"]
    assert tool.custom
    assert function["description"] == "Runs a command."
    assert function["parameters"]["required"] == ["input"]
    assert 'start: "a"' in function["parameters"]["properties"]["input"]["description"]


def test_the_grammar_is_part_of_the_canonical_parameters_and_the_hash():
    (plain,), (text,), (lark,) = (
        parse_tools([custom(**fields)])
        for fields in ({}, {"format": {"type": "text"}}, {"format": LARK})
    )
    assert plain.hash == text.hash != lark.hash
    assert grammar_of(plain.parameters) is None
    assert grammar_of(lark.parameters) == Grammar("lark", 'start: "a"')


def test_a_schema_cannot_have_a_grammar():
    text = {"type": "string", "x-toolgate-grammar": {"syntax": "lark", "definition": "start:"}}
    assert grammar_of(tool("f", {"properties": {"input": text}}).parameters) is None


def read(text, cuts):
    """The text before the call's end, and the rest."""
    reader, parts, at = InputText(), [], 0
    for cut in [*sorted(cut % (len(text) + 1) for cut in cuts), len(text)]:
        parts.append(reader.feed(text[at:cut]))
        at = cut
    return "".join(parts), reader.last()


@given(st.text(), st.lists(st.integers(0, 10_000)), st.booleans())
def test_any_input_is_read_at_every_split(text, cuts, ascii_only):
    before, last = read(json.dumps({"input": text}, ensure_ascii=ascii_only), cuts)
    assert before + last == text
    assert last == text[-1:]


@pytest.mark.parametrize("written", ['{"input": "a\\/b"}', '{ "input":"a\\u002fb" }'])
def test_every_escape_of_json_is_read(written):
    assert "".join(read(written, [1, 9, 12])) == "a/b"


@pytest.mark.parametrize("half", ["\\ud83d", "\\ud83dx", "\\ude00", "\\ud83d\\ud83d"])
def test_half_of_a_surrogate_pair_becomes_a_replacement_character(half):
    text = "".join(read(f'{{"input": "a{half}"}}', [14]))
    assert "\N{REPLACEMENT CHARACTER}" in text
    text.encode()


def test_a_cut_input_lacks_its_last_character():
    calls = CustomCalls(["shell"])
    events = calls.converted(
        [CallStart(0, "shell"), ArgumentsDelta(0, '{"input": "ls -l'), Finish("length", call="cut")]
    )
    assert events == [
        CallStart(0, "shell", custom=True),
        InputDelta(0, "ls -"),
        Finish("length", call="cut"),
    ]


def test_calls_of_functions_are_unchanged():
    events = [CallStart(0, "look"), ArgumentsDelta(0, '{"input": "a"}'), CallEnd(0)]
    assert CustomCalls(["shell"]).converted([*events]) == events
