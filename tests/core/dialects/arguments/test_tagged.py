"""Parser of arguments in tags."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.dialects.argument_splits import parsed_in_parts
from toolgate_core.dialects.arguments.parser import ArgumentsError
from toolgate_core.dialects.arguments.tagged import TaggedArguments
from toolgate_core.dialects.codecs import Tagged
from toolgate_core.dialects.marks import Marks

QWEN = Tagged("<parameter=", ">\n", "\n</parameter>\n", close="</parameter>")
GLM = Tagged("<key>", "</key><value>", "</value>", close="</value>")
TYPED = Tagged(
    '<parameter name="',
    '" string="{type}">',
    "</parameter>\n",
    close="</parameter>",
    types=(("string", "true"), ("integer", "false"), ("object", "false"), ("null", "false")),
)
CDATA = Tagged('<param name="', '">', "</param>", close="</param>", cdata=True)
ESCAPED = Tagged('<a key="', '">', "</a>", close="</a>", escapes=(("&", "&amp;"), ('"', "&quot;")))
PARAMETERS = {
    "properties": {
        "s": {"type": "string"},
        "n": {"type": "integer"},
        "l": {"type": "array", "items": {"type": "string"}},
        "o": {"type": "object"},
        "maybe": {"type": ["string", "null"]},
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    }
}
NO_MARKS = Marks({})


def parse(
    codec: Tagged, text: str, marks: Marks = NO_MARKS, parameters: Any = PARAMETERS
) -> tuple[dict[str, Any], str]:
    """The arguments and the rest."""
    written, rest = parsed_in_parts(lambda: TaggedArguments(codec, parameters, marks), text)
    return json.loads(written), rest


def qwen(**values: str) -> str:
    return "".join(f"<parameter={k}>\n{v}\n</parameter>\n" for k, v in values.items())


@pytest.mark.parametrize(
    "value",
    [
        "x",
        "",
        "\n",
        "\n\n",
        ' "quoted" \\ ',
        "<parameter=n>",
        "</paramete",
        "\n</parameter",
        "日本 🎉",
        "5",
        '{"a": 1}',
        "x" * 10_000,
    ],
)
def test_a_string_is_raw_text(value: str) -> None:
    text = qwen(s=value) + "</function>"
    if len(value) < 100:
        assert parse(QWEN, text) == ({"s": value}, "</function>")
    else:
        parser = TaggedArguments(QWEN, PARAMETERS, NO_MARKS)
        assert json.loads(parser.feed(text)) == {"s": value}


def test_other_values_are_json() -> None:
    text = qwen(n="12", l='["</parameter>\\n", "\\"\\n</parameter>\\n"]', o='{"a": {"b": null}}')
    values = {"n": 12, "l": ["</parameter>\n", '"\n</parameter>\n'], "o": {"a": {"b": None}}}
    assert parse(QWEN, text + "</function>") == (values, "</function>")


def test_numbers_keep_their_digits() -> None:
    parser = TaggedArguments(QWEN, PARAMETERS, NO_MARKS)
    assert parser.feed(qwen(n="123456789012345678901234567890") + "<") == (
        '{"n": 123456789012345678901234567890'
    )
    assert parser.feed("/") == "}"


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("maybe", "null", None),
        ("maybe", "nullable", "nullable"),
        ("maybe", "5", "5"),
        ("maybe", "", ""),
        ("maybe", '{"a": 1}', '{"a": 1}'),
        ("either", "5", 5),
        ("either", "-5", -5),
        ("either", "05", "05"),
        ("either", "5.0", "5.0"),
        ("either", "5 apples", "5 apples"),
        ("either", "null", "null"),
        ("undeclared", "true", True),
        ("undeclared", "1e3", 1e3),
        ("undeclared", '{"a": ["\\n</parameter>\\n"]}', {"a": ["\n</parameter>\n"]}),
        ("undeclared", "[]", []),
        ("undeclared", "tru", "tru"),
    ],
)
def test_a_value_of_several_types(key: str, text: str, value: object) -> None:
    assert parse(QWEN, qwen(**{key: text}) + "</f>") == ({key: value}, "</f>")


def test_no_arguments() -> None:
    assert parse(QWEN, "</function>") == ({}, "</function>")
    assert parse(GLM, "</tool_call>") == ({}, "</tool_call>")


def test_a_type_attribute_decides() -> None:
    text = '<parameter name="s" string="true">5</parameter>\n'
    text += '<parameter name="either" string="false">5</parameter>\n'
    text += '<parameter name="maybe" string="true">null</parameter>\n</invoke>'
    assert parse(TYPED, text)[0] == {"s": "5", "either": 5, "maybe": "null"}
    with pytest.raises(ArgumentsError, match="type attribute"):
        parse(TYPED, text.replace('"false"', '"maybe"'))


def test_cdata() -> None:
    text = '<param name="s"><![CDATA[a < b && </param>\n]]></param><param name="maybe"><![C</param>'
    assert parse(CDATA, text + "</f>")[0] == {"s": "a < b && </param>\n", "maybe": "<![C"}


def test_escaped_keys() -> None:
    assert parse(ESCAPED, '<a key="&quot;x&amp;&quot;">1</a></f>')[0] == {'"x&"': 1}


def test_marks_that_are_tokens() -> None:
    marks = Marks({"<key>": 1, "</key>": 2, "<value>": 3, "</value>": 4})
    text = marks.encode("<key>s</key><value>") + "a</value>" + marks.encode("</value>") + "</f>"
    assert parse(GLM, text, marks) == ({"s": "a</value>"}, "</f>")
    with pytest.raises(ArgumentsError, match="marker token"):
        parse(GLM, text.replace("a", marks.encode("<key>")), marks)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("<parameter=s>\nx</parameter>\n", "closed in an unexpected form"),
        ("<parameter=s>\nx\n</parameter>;", "closed in an unexpected form"),
    ],
)
def test_text_in_another_form(text: str, error: str) -> None:
    with pytest.raises(ArgumentsError, match=error):
        parse(QWEN, text)


def test_the_last_one_counts_of_an_argument_that_is_written_twice() -> None:
    text = qwen(s="x") + qwen(s="y") + "</function>"
    assert parse(QWEN, text) == ({"s": "y"}, "</function>")


@pytest.mark.parametrize("length", range(len(qwen(s="abc", n="12"))))
def test_a_call_that_is_cut_does_not_look_whole(length: int) -> None:
    parser = TaggedArguments(QWEN, PARAMETERS, NO_MARKS)
    written = parser.feed(qwen(s="abc", n="12")[:length])
    written += parser.cut()
    assert not parser.finished
    with pytest.raises(json.JSONDecodeError):
        json.loads(written)


@pytest.mark.parametrize(("key", "value"), [("s", "a</b"), ("o", '{"k": "</"}')])
def test_a_mark_in_the_end_of_a_value_is_not_part_of_a_cut_value(key: str, value: str) -> None:
    """The end of a value can be cut after its mark: `</｜DSML｜`."""
    marks = Marks({"｜D｜": 1})
    codec = Tagged("<｜D｜p=", ">", "</｜D｜p>\n", close="</｜D｜p>")
    text = marks.encode(f"<｜D｜p={key}>{value}</｜D｜p>\n")
    for length in range(len(text)):
        parser = TaggedArguments(codec, PARAMETERS, marks)
        written = parser.feed(text[:length]) + parser.cut()
        written.encode()  # marks are lone surrogates, which UTF-8 cannot represent
