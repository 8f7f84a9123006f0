"""Parser of keyword arguments of a Python call, compared with Python's own."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest

from tests.support.dialects.argument_splits import parsed_in_parts
from toolgate_core.dialects.arguments.parser import ArgumentsError
from toolgate_core.dialects.arguments.pythonic import PythonicArguments
from toolgate_core.dialects.codecs import Pythonic
from toolgate_core.dialects.marks import Marks

PLAIN = Pythonic()
JSON_OBJECTS = Pythonic(quote="'", json_objects=True)
NO_MARKS = Marks({})
HOSTILE = [
    "x",
    "",
    "it's",
    'a "b"',
    "'\"",
    "a\nb\r\t",
    "\\",
    "\\n",
    "日本",
    "🎉",
    "\x7f\x01",
    ", n=3)",
    ")]",
    "}]",
    "<|tool_call_end|>",
    "a=1",
]


def parse(text: str, codec: Pythonic = PLAIN, marks: Marks = NO_MARKS) -> tuple[str, str]:
    """The JSON and the rest."""
    return parsed_in_parts(lambda: PythonicArguments(codec, marks), text)


def arguments(text: str, codec: Pythonic = PLAIN) -> Any:
    written, rest = parse(f"{text})", codec)
    assert rest == ")"
    return json.loads(written)


def by_python(text: str) -> dict[str, Any]:
    call = ast.parse(f"f({text})", mode="eval").body
    assert isinstance(call, ast.Call)
    return {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}


@pytest.mark.parametrize("value", HOSTILE)
def test_strings(value: str) -> None:
    assert arguments(f"a={value!r}") == {"a": value}
    assert arguments(f"a={json.dumps(value, ensure_ascii=False)}") == {"a": value}
    assert arguments(f"a={json.dumps(value)}") == {"a": value}
    assert arguments(f"a={value!a}, b=[{value!r}], c={{{value!r}: {value!r}}}") == {
        "a": value,
        "b": [value],
        "c": {value: value},
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "n=3",
        "n=-0",
        "x=1.5e+10, y=0.1",
        "ok=True, no=False, nothing=None",
        "l=[]",
        "o={}",
        "l=['p', 1, [True, {}], {'a': None}]",
        "o={'a': {'b': ['c']}, \"d\": 1}",
        "a = 1 ,\n b = [ 1 , 2 ] , o = { 'a' : 1 } ",
        "l=[1, 2,], o={'a': 1,}",
        r"a='\x41\u00e9\U0001F600\101\0\12'",
        r"a='\a\v\d\/'",
        "a='x\\\ny'",
    ],
)
@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")
def test_values_are_those_that_python_reads(text: str) -> None:
    assert arguments(text) == by_python(text)


def test_the_json_has_the_separators_of_other_dialects() -> None:
    text = "a='x', n=3, ok=True, l=['p', 'q'], o={'k': 1.50, 'e': None})]"
    written = '{"a": "x", "n": 3, "ok": true, "l": ["p", "q"], "o": {"k": 1.50, "e": null}}'
    assert parse(text) == (written, ")]")


def test_numbers_keep_their_digits() -> None:
    text = "n=123456789012345678901234567890, x=1e400"
    assert parse(text + ")")[0] == '{"n": 123456789012345678901234567890, "x": 1e400}'


def test_words_of_json_are_read_too() -> None:
    assert arguments("a=true, b=false, c=null") == {"a": True, "b": False, "c": None}


def test_objects_as_json() -> None:
    value = {"k": 'it\'s / "x"\n', "ok": True, "l": [None, {"e": "🎉"}]}
    for text in (json.dumps(value), json.dumps(value).replace("/", "\\/")):
        assert arguments(f"o={text}, a='b'", JSON_OBJECTS) == {"o": value, "a": "b"}


def test_names_that_are_no_identifiers() -> None:
    assert arguments("from='x', a-b=1, ключ=2") == {"from": "x", "a-b": 1, "ключ": 2}


def test_a_string_streams() -> None:
    parser = PythonicArguments(PLAIN, NO_MARKS)
    assert parser.feed("a='on") == '{"a": "on'
    assert parser.feed("e\\") == "e"
    assert parser.feed("n") == "\\n"
    assert parser.feed("', ") == '"'
    assert parser.feed("b=1") == ', "b": '
    assert parser.feed(")") == "1}"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a='x", '{"a": "x'),
        ("a='x\\", '{"a": "x'),
        ("a=[1, 23", '{"a": [1, 23'),
        ("a=Tr", '{"a": '),
        ("a", ""),
        ("o={'k", '{"o": {"k'),
    ],
)
def test_cut_arguments(text: str, written: str) -> None:
    parser = PythonicArguments(PLAIN, NO_MARKS)
    assert parser.feed(text) + parser.cut() == written
    assert not parser.finished


def test_finished_arguments_are_not_cut() -> None:
    parser = PythonicArguments(PLAIN, NO_MARKS)
    assert parser.feed("a=1)") == '{"a": 1}'
    assert parser.cut() == ""
    assert parser.feed("]") == ""
    assert parser.rest == ")]"


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("'x')", 0),
        ("a)", 0),
        ("a=x)", 2),
        ("a=01)", 2),
        ("a=1_000)", 2),
        ("a='x' 'y')", 6),
        ("a=(1, 2))", 2),
        ("a={1: 2})", 3),
        ("a={'k' 2})", 7),
        ("a=[1}", 4),
        ("a='\\xg0')", 3),
        ("a='\\U00110000')", 3),
        ("=1)", 0),
    ],
)
def test_other_text_is_an_error(text: str, at: int) -> None:
    parser = PythonicArguments(PLAIN, NO_MARKS)
    with pytest.raises(ArgumentsError) as raised:
        parser.feed(text)
    assert raised.value.at == at


def test_a_mark_inside_a_string_is_an_error() -> None:
    marks = Marks({"<|end|>": 7})
    parser = PythonicArguments(PLAIN, marks)
    with pytest.raises(ArgumentsError, match="marker token"):
        parser.feed("a='x" + marks.encode("<|end|>") + "')")


def test_deep_nesting_is_an_error() -> None:
    with pytest.raises(ArgumentsError, match="nested"):
        PythonicArguments(PLAIN, NO_MARKS).feed("a=" + "[" * 1000)
