"""Parser of arguments with bare keys and strings between marks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.dialects.argument_splits import parsed_in_parts
from toolgate_core.dialects.arguments.gemma import GemmaArguments
from toolgate_core.dialects.arguments.parser import ArgumentsError
from toolgate_core.dialects.codecs import GemmaValues
from toolgate_core.dialects.marks import Marks

Q = '<|"|>'
GEMMA = GemmaValues(Q)
NO_BRACES = GemmaValues("<escape>", braces=False)
NO_MARKS = Marks({})
MARKS = Marks({Q: 50, "<tool_call|>": 51})
EITHER = pytest.mark.parametrize("marks", [NO_MARKS, MARKS], ids=["text", "tokens"])
HOSTILE = [
    "x",
    "",
    'a "b" \\',
    "it's\n",
    "日本 🎉",
    ",n:3}",
    "}]",
    '<|"|',
    '<|"',
    "<",
    "k:",
    "<tool_call",
    "null",
    "5",
    "\x7f\x01",
]


def parse(text: str, marks: Marks = NO_MARKS, codec: GemmaValues = GEMMA) -> tuple[str, str]:
    """The JSON and the rest."""
    written, rest = parsed_in_parts(lambda: GemmaArguments(codec, marks), marks.encode(text))
    return written, marks.decode(rest)


def arguments(text: str, marks: Marks = NO_MARKS) -> Any:
    written, rest = parse(f"{text}<tool_call|>", marks)
    assert rest == "<tool_call|>"
    return json.loads(written)


@EITHER
@pytest.mark.parametrize("value", HOSTILE)
def test_strings(value: str, marks: Marks) -> None:
    text = f"{{a:{Q}{value}{Q},l:[{Q}{value}{Q},{Q}{Q}],o:{{k:{Q}{value}{Q}}}}}"
    assert arguments(text, marks) == {"a": value, "l": [value, ""], "o": {"k": value}}


@EITHER
def test_values_of_all_types(marks: Marks) -> None:
    text = f"{{a:{Q}x{Q},l:[{Q}p{Q},1,[],{{}}],n:-3,o:{{k:1.50,z:{{}}}},ok:true,q:false,z:null}}"
    written = (
        '{"a": "x", "l": ["p", 1, [], {}], "n": -3, "o": {"k": 1.50, "z": {}}, "ok": true, '
        '"q": false, "z": null}'
    )
    assert parse(text + "<tool_call|>", marks) == (written, "<tool_call|>")


def test_no_arguments() -> None:
    assert parse("{}") == ("{}", "")
    assert parse("}<end>", codec=NO_BRACES) == ("{}", "}<end>")


def test_without_braces_the_end_is_not_part_of_the_arguments() -> None:
    text = "a:<escape>x}<escape>,n:3}<end_function_call>"
    assert parse(text, codec=NO_BRACES) == ('{"a": "x}", "n": 3}', "}<end_function_call>")


def test_words_of_python_white_space_and_keys_as_strings() -> None:
    text = f"{{ a : True ,\n {Q}b c{Q} : [ None , False ] }}"
    assert arguments(text, MARKS) == {"a": True, "b c": [None, False]}
    assert arguments(text) == {"a": True, "b c": [None, False]}


def test_numbers_keep_their_digits() -> None:
    assert parse("{n:12345678901234567890123,x:1e400}")[0] == (
        '{"n": 12345678901234567890123, "x": 1e400}'
    )


def test_text_that_looks_like_a_mark_stays_text() -> None:
    quote = MARKS.encode(Q)
    parser = GemmaArguments(GEMMA, MARKS)
    written = parser.feed(f"{{a:{quote}x{Q}{quote}}}")
    assert json.loads(written) == {"a": f"x{Q}"}


def test_a_string_streams() -> None:
    parser = GemmaArguments(GEMMA, NO_MARKS)
    assert parser.feed(f"{{a:{Q}on") == '{"a": "on'
    assert parser.feed('e<|"') == "e"
    assert parser.feed("|>") == '"'
    assert parser.feed("}") == "}"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (f"{{a:{Q}x", '{"a": "x'),
        (f"{{a:{Q}x<|", '{"a": "x<|'),
        ("{a:12", '{"a": 12'),
        ("{a:tr", '{"a": '),
        ("{a", ""),
        ("", ""),
    ],
)
def test_cut_arguments(text: str, written: str) -> None:
    parser = GemmaArguments(GEMMA, NO_MARKS)
    assert parser.feed(text) + parser.cut() == written
    assert not parser.finished


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("a:1}", 0),
        ("{a:x}", 3),
        ('{a:"x"}', 3),
        ("{a,b:1}", 1),
        ("{:1}", 1),
        ("{a:01}", 3),
        ("{a:[1}", 5),
        ("{a:{b:1]}", 7),
    ],
)
def test_other_text_is_an_error(text: str, at: int) -> None:
    with pytest.raises(ArgumentsError) as raised:
        GemmaArguments(GEMMA, NO_MARKS).feed(text)
    assert raised.value.at == at


def test_another_mark_inside_a_value_is_an_error() -> None:
    with pytest.raises(ArgumentsError, match="marker token"):
        parse(f"{{a:{Q}x<tool_call|>{Q}}}", MARKS)
