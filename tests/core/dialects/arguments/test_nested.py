"""Parser of arguments in nested tags."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.dialects.argument_splits import parsed_in_parts
from toolgate_core.dialects.arguments.nested import NestedArguments
from toolgate_core.dialects.arguments.parser import ArgumentsError
from toolgate_core.dialects.codecs import NestedTags
from toolgate_core.dialects.marks import Marks

NS = "]<]minimax[>["
CODEC = NestedTags(NS)
NO_MARKS = Marks({})
MARKS = Marks({NS: 9, "[e~[": 10})
EITHER = pytest.mark.parametrize("marks", [NO_MARKS, MARKS], ids=["text", "token"])
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "s": {"type": "string"},
        "n": {"type": "integer"},
        "x": {"type": "number"},
        "ok": {"type": "boolean"},
        "l": {"type": "array", "items": {"type": "string"}},
        "p": {"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "string"}},
        "o": {
            "type": "object",
            "properties": {"k": {"type": "string"}, "n": {"type": "integer"}},
        },
        "t": {"$ref": "#/$defs/tree"},
        "maybe": {"type": ["string", "null"]},
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "both": {"type": ["array", "object"], "items": {"type": "integer"}},
        "text_or_object": {
            "anyOf": [
                {"type": "string"},
                {"properties": {"k": {"type": "integer"}}, "type": "object"},
            ]
        },
    },
    "$defs": {
        "tree": {
            "type": "object",
            "properties": {
                "v": {"type": "string"},
                "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
            },
        }
    },
}
HOSTILE = [
    "x",
    "",
    "\n",
    ' "quoted" \\ ',
    "]<]minimax[>",
    "]<]",
    "<s>",
    "</s>",
    "日本 🎉",
    "5",
    "null",
    '{"a": 1}',
    "]",
    "\x7f\x01",
]


def tag(name: str, *inner: str) -> str:
    return f"{NS}<{name}>{''.join(inner)}{NS}</{name}>"


def parse(text: str, marks: Marks = NO_MARKS) -> tuple[str, str]:
    """The JSON and the rest."""
    encoded = marks.encode(text)
    written, rest = parsed_in_parts(lambda: NestedArguments(CODEC, PARAMETERS, marks), encoded)
    return written, marks.decode(rest)


def arguments(text: str, marks: Marks = NO_MARKS) -> Any:
    written, rest = parse(f"{text}{NS}</invoke>", marks)
    assert rest == f"{NS}</invoke>"
    return json.loads(written)


@pytest.mark.exhaustive
@EITHER
@pytest.mark.parametrize("value", HOSTILE)
def test_a_string_is_raw_text(value: str, marks: Marks) -> None:
    text = tag("s", value) + tag("l", tag("item", value), tag("item")) + tag("o", tag("k", value))
    assert arguments(text, marks) == {"s": value, "l": [value, ""], "o": {"k": value}}


@EITHER
def test_values_of_all_types(marks: Marks) -> None:
    text = (
        tag("s", "x")
        + tag("n", "-3")
        + tag("x", "1.50e3")
        + tag("ok", "true")
        + tag("l", tag("item", "a"), tag("item", "b"))
        + tag("p", tag("item", "1"), tag("item", "2"))
        + tag("o", tag("k", "1"), tag("n", "1"))
    )
    written = (
        '{"s": "x", "n": -3, "x": 1.50e3, "ok": true, "l": ["a", "b"], "p": [1, "2"], '
        '"o": {"k": "1", "n": 1}}'
    )
    assert parse(f"{text}{NS}</invoke>", marks) == (written, f"{NS}</invoke>")


def test_no_arguments() -> None:
    assert parse(f"{NS}</invoke>") == ("{}", f"{NS}</invoke>")


def test_empty_containers() -> None:
    assert arguments(tag("l") + tag("o") + tag("both")) == {"l": [], "o": {}, "both": []}


def test_recursive_schemas() -> None:
    leaf = tag("item", tag("v", "1"), tag("kids"))
    text = tag("t", tag("v", "0"), tag("kids", leaf, tag("item", tag("kids", leaf))))
    one = {"v": "1", "kids": []}
    assert arguments(text) == {"t": {"v": "0", "kids": [one, {"kids": [one]}]}}


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("maybe", "null", None),
        ("maybe", "nullable", "nullable"),
        ("maybe", "", ""),
        ("either", "5", 5),
        ("either", "05", "05"),
        ("either", "5 apples", "5 apples"),
        ("either", "null", "null"),
        ("both", tag("item", "1"), [1]),
        ("both", tag("k", "1"), {"k": 1}),
        ("both", tag("items", "1"), {"items": 1}),
        ("text_or_object", tag("k", "1"), {"k": 1}),
        ("text_or_object", "", ""),
        ("text_or_object", "{", "{"),
        ("undeclared", "true", True),
        ("undeclared", "x", "x"),
        ("undeclared", tag("a", tag("item", "1")), {"a": [1]}),
        ("o", '{"k": "1"}', {"k": "1"}),
    ],
)
def test_a_value_of_several_types(key: str, text: str, value: object) -> None:
    assert arguments(tag(key, text)) == {key: value}


def test_white_space_between_tags() -> None:
    text = f"\n{NS}<l>\n{tag('item', ' a ')}\n{NS}</l>\n{tag('n', ' 3 ')}"
    assert arguments(text) == {"l": [" a "], "n": 3}


def test_a_string_streams() -> None:
    parser = NestedArguments(CODEC, PARAMETERS, NO_MARKS)
    assert parser.feed(f"{NS}<s>on") == '{"s": "on'
    assert parser.feed("e]<]") == "e"
    assert parser.feed("mini") == ""
    assert parser.feed("mum") == "]<]minimum"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (f"{NS}<s>x", '{"s": "x'),
        (f"{NS}<s>x]<]mini", '{"s": "x'),
        (f"{NS}<n>12", '{"n": '),
        (f"{NS}<s", "{"),
        ("", ""),
    ],
)
def test_cut_arguments(text: str, written: str) -> None:
    parser = NestedArguments(CODEC, PARAMETERS, NO_MARKS)
    assert parser.feed(text) + parser.cut() == written
    assert not parser.finished


@pytest.mark.parametrize(
    "text",
    [
        f"{NS}<s>x{NS}</n>",
        f"{NS}<s>x{NS}<k>",
        f"{NS}<>",
        tag("n", "x"),
        tag("n", "01"),
        tag("n"),
        tag("l", tag("k", "x")),
        f"{NS}<o>{tag('k', 'x')}text{NS}</o>",
    ],
)
def test_other_text_is_an_error(text: str) -> None:
    with pytest.raises(ArgumentsError):
        NestedArguments(CODEC, PARAMETERS, NO_MARKS).feed(text + f"{NS}</invoke>")


def test_another_mark_inside_a_value_is_an_error() -> None:
    with pytest.raises(ArgumentsError, match="marker token"):
        parse(tag("s", "x[e~["), MARKS)
