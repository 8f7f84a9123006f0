"""What the parsers of arguments make of texts in each form, and which texts they refuse."""

import ast
import json

import pytest

from tests.core.dialects.forms import (
    CASES,
    MARKS,
    NO_MARKS,
    NS,
    Q,
    parse,
    parser,
    qwen,
    tag,
    value_of,
)
from tests.support.effort import rotating
from toolgate_core.dialects.arguments.parser import ArgumentsError
from toolgate_core.schema.types import ALL, argument_types

BOTH = [(form, marks) for form in ("gemma", "nested") for marks in (NO_MARKS, MARKS[form])]
"""Forms whose marks are text in some models."""


def with_strings(form, value):
    """Texts with a string at several places, and their values."""
    if form == "gemma":
        text = f"{{a:{Q}{value}{Q},l:[{Q}{value}{Q},{Q}{Q}],o:{{k:{Q}{value}{Q}}}}}"
        return {text: {"a": value, "l": [value, ""], "o": {"k": value}}}
    if form == "nested":
        items = tag("l", tag("item", value), tag("item"))
        text = tag("s", value) + items + tag("o", tag("k", value))
        return {text: {"s": value, "l": [value, ""], "o": {"k": value}}}
    if form == "tagged":
        return {qwen(s=value): {"s": value}}
    several = f"a={value!a}, b=[{value!r}], c={{{value!r}: {value!r}}}"
    spelled = (repr(value), json.dumps(value, ensure_ascii=False), json.dumps(value))
    return {
        **{f"a={each}": {"a": value} for each in spelled},
        several: {"a": value, "b": [value], "c": {value: value}},
    }


HOSTILE = ("x", "", "日本 🎉", "\x7f\x01", "null", "5", "\n")


@rotating(
    "form, marks, value",
    [
        (form, marks, value)
        for form, marks in [*BOTH, ("pythonic", NO_MARKS), ("tagged", NO_MARKS)]
        for value in (*HOSTILE, *CASES["hostile_in"][form])
    ],
    one_in=3,
)
def test_strings(form, marks, value):
    for text, expected in with_strings(form, value).items():
        assert value_of(form, text, marks) == expected


def test_a_long_string():
    assert json.loads(parser("tagged").feed(qwen(s="x" * 10_000) + "</function>")) == {
        "s": "x" * 10_000
    }


@pytest.mark.parametrize(("form", "text", "written"), CASES["written"])
def test_the_json_of_a_text(form, text, written):
    ends = {
        "gemma": "<tool_call|>",
        "no braces": "}<end_function_call>",
        "nested": f"{NS}</invoke>",
    }
    end = ends.get(form, ")]" if form == "pythonic" else "</function>")
    for marks in [NO_MARKS, *([MARKS[form]] if form in ("gemma", "nested") else [])]:
        assert parse(form, text + end, marks) == (written, end)


@pytest.mark.parametrize(("form", "text", "value"), CASES["values"])
def test_the_values_of_a_text(form, text, value):
    assert value_of(form, text) == value
    if form == "gemma":
        assert value_of(form, text, MARKS[form]) == value


def by_python(text):
    call = ast.parse(f"f({text})", mode="eval").body
    assert isinstance(call, ast.Call)
    return {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}


@pytest.mark.parametrize("text", CASES["values_of_a_call_are_those_that_python_reads"])
@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")
def test_values_of_a_call_are_those_that_python_reads(text):
    assert value_of("pythonic", text) == by_python(text)


@pytest.mark.parametrize(("form", "parts"), CASES["a_value_streams"])
def test_a_value_streams(form, parts):
    reading = parser(form)
    for part, written in parts.items():
        assert reading.feed(part) == written


def test_text_that_looks_like_a_mark_stays_text():
    quote = MARKS["gemma"].encode(Q)
    written = parser("gemma", MARKS["gemma"]).feed(f"{{a:{quote}x{Q}{quote}}}")
    assert json.loads(written) == {"a": f"x{Q}"}
    encode = MARKS["key tags"].encode
    text = encode("<key>s</key><value>") + "a</value>" + encode("</value>") + "</f>"
    reading = parser("key tags", MARKS["key tags"])
    assert json.loads(reading.feed(text)) == {"s": "a</value>"}
    assert reading.rest == "</f>"


def test_finished_arguments_are_not_cut():
    reading = parser("pythonic")
    assert reading.feed("a=1)") == '{"a": 1}'
    assert reading.cut() == ""
    assert reading.feed("]") == ""
    assert reading.rest == ")]"


@pytest.mark.parametrize(("form", "text", "written"), CASES["cut_arguments"])
def test_cut_arguments(form, text, written):
    reading = parser(form)
    assert reading.feed(text) + reading.cut() == written
    assert not reading.finished


@pytest.mark.parametrize("length", range(len(qwen(s="abc", n="12"))))
def test_a_call_that_is_cut_does_not_look_whole(length):
    reading = parser("tagged")
    written = reading.feed(qwen(s="abc", n="12")[:length])
    written += reading.cut()
    assert not reading.finished
    with pytest.raises(json.JSONDecodeError):
        json.loads(written)


@pytest.mark.parametrize(("key", "value"), [("s", "a</b"), ("o", '{"k": "</"}')])
def test_a_mark_in_the_end_of_a_value_is_not_part_of_a_cut_value(key, value):
    """The end of a value can be cut after its mark: `</｜DSML｜`."""
    text = MARKS["marked"].encode(f"<｜D｜p={key}>{value}</｜D｜p>\n")
    for length in range(len(text)):
        reading = parser("marked", MARKS["marked"])
        written = reading.feed(text[:length]) + reading.cut()
        written.encode()  # marks are lone surrogates, which UTF-8 cannot represent


@pytest.mark.parametrize(("form", "text", "at"), CASES["other_text_is_an_error"])
def test_other_text_is_an_error(form, text, at):
    """`at`: the place that the error names."""
    with pytest.raises(ArgumentsError) as raised:
        parser(form).feed(text if at is not None else f"{text}{NS}</invoke>")
    assert at is None or raised.value.at == at


@pytest.mark.parametrize(
    ("form", "text", "error"),
    [*CASES["the_error_says_what_is_wrong"], ("pythonic", "a=" + "[" * 1000, "nested")],
)
def test_the_error_says_what_is_wrong(form, text, error):
    with pytest.raises(ArgumentsError, match=error):
        parse(form, text, MARKS.get(form, MARKS["pythonic"]))


NUMBERS = {"integer", "number"}


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        ({"type": "string"}, {"string"}),
        ({"type": "number"}, NUMBERS),
        ({"type": ["string", "null"]}, {"string", "null"}),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"string", "integer"}),
        ({"oneOf": [{"type": "array"}, {"type": "boolean"}]}, {"array", "boolean"}),
        ({"allOf": [{"type": ["string", "null"]}, {"type": "string"}]}, {"string"}),
        ({"enum": ["a", None, 2]}, {"string", "null", "integer"}),
        ({"type": "string", "enum": ["a", None]}, {"string"}),
        ({"const": 2.5}, NUMBERS),
        ({"$ref": "#/$defs/some%20text"}, {"string"}),
        ({"$ref": "#/$defs/loop"}, {"null"} | ALL),
        ({}, ALL),
        (True, ALL),
    ],
)
def test_types_of_a_declared_argument(schema, types):
    loop = {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/loop"}]}
    definitions = {"some text": {"type": "string"}, "loop": loop}
    parameters = {"properties": {"a": schema}, "$defs": definitions}
    assert argument_types(parameters, "a") == types


def test_types_of_further_arguments():
    parameters = {
        "properties": {"a": {"type": "string"}},
        "patternProperties": {"^n_": {"type": "integer"}},
        "additionalProperties": {"type": ["boolean", "null"]},
    }
    assert argument_types(parameters, "n_1") == {"integer"}
    assert argument_types(parameters, "b") == {"boolean", "null"}


def test_branches_of_the_parameters_are_united():
    branches = [
        {"properties": {"a": {"type": "string"}}, "additionalProperties": False},
        {"properties": {"a": {"type": "integer"}}},
        {"properties": {"b": {"type": "null"}}, "additionalProperties": False},
    ]
    assert argument_types({"anyOf": branches}, "a") == {"string", "integer"}
    assert argument_types({"anyOf": branches[:1]}, "c") == ALL


def test_a_pattern_of_names_takes_linear_time():
    """Python's regular expressions would take 2^5000 steps."""
    schema = {"patternProperties": {"^(a|aa)+$": {"type": "null"}, "^(a|aa)+b$": {"type": "array"}}}
    assert argument_types(schema, "a" * 5_000 + "b") == {"array"}
