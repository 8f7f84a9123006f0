"""What the parsers of arguments make of texts in each form, and which texts they refuse."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.core.dialects.forms import (
    MARKS,
    NO_MARKS,
    NS,
    QWEN_END,
    Q,
    parse,
    parser,
    qwen,
    tag,
    value_of,
)
from toolgate_core.dialects.arguments.parser import ArgumentsError
from toolgate_core.dialects.arguments.value_types import ALL, argument_types

BOTH = [(form, marks) for form in ("gemma", "nested") for marks in (NO_MARKS, MARKS[form])]
"""Forms whose marks are text in some models."""


def with_strings(form: str, value: str) -> dict[str, Any]:
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
HOSTILE_IN = {
    "gemma": ('a "b" \\', "it's\n", ",n:3}", "}]", '<|"|', '<|"', "<", "k:", "<tool_call"),
    "nested": (' "quoted" \\ ', "]<]minimax[>", "]<]", "<s>", "</s>", '{"a": 1}', "]"),
    "pythonic": (
        *("it's", 'a "b"', "'\"", "a\nb\r\t", "\\", "\\n", ", n=3)", ")]", "}]", "a=1"),
        "<|tool_call_end|>",
    ),
    "tagged": (
        *("\n\n", ' "quoted" \\ ', "<parameter=n>", "</paramete", "\n</parameter", '{"a": 1}'),
    ),
}


@pytest.mark.parametrize(
    ("form", "marks", "value"),
    [
        (form, marks, value)
        for form, marks in [*BOTH, ("pythonic", NO_MARKS), ("tagged", NO_MARKS)]
        for value in (*HOSTILE, *HOSTILE_IN[form])
    ],
)
def test_strings(form, marks, value):
    for text, expected in with_strings(form, value).items():
        assert value_of(form, text, marks) == expected


def test_a_long_string():
    assert json.loads(parser("tagged").feed(qwen(s="x" * 10_000) + "</function>")) == {
        "s": "x" * 10_000
    }


WRITTEN: list[tuple[str, str, str]] = [
    (
        "gemma",
        f"{{a:{Q}x{Q},l:[{Q}p{Q},1,[],{{}}],n:-3,o:{{k:1.50,z:{{}}}},ok:true,q:false,z:null}}",
        '{"a": "x", "l": ["p", 1, [], {}], "n": -3, "o": {"k": 1.50, "z": {}}, "ok": true, '
        '"q": false, "z": null}',
    ),
    (
        "nested",
        tag("s", "x")
        + tag("n", "-3")
        + tag("x", "1.50e3")
        + tag("ok", "true")
        + tag("l", tag("item", "a"), tag("item", "b"))
        + tag("p", tag("item", "1"), tag("item", "2"))
        + tag("o", tag("k", "1"), tag("n", "1")),
        '{"s": "x", "n": -3, "x": 1.50e3, "ok": true, "l": ["a", "b"], "p": [1, "2"], '
        '"o": {"k": "1", "n": 1}}',
    ),
    (
        "pythonic",
        "a='x', n=3, ok=True, l=['p', 'q'], o={'k': 1.50, 'e': None}",
        '{"a": "x", "n": 3, "ok": true, "l": ["p", "q"], "o": {"k": 1.50, "e": null}}',
    ),
    ("no braces", "a:<escape>x}<escape>,n:3", '{"a": "x}", "n": 3}'),
    # Numbers keep their digits.
    (
        "gemma",
        "{n:12345678901234567890123,x:1e400}",
        '{"n": 12345678901234567890123, "x": 1e400}',
    ),
    (
        "pythonic",
        "n=123456789012345678901234567890, x=1e400",
        '{"n": 123456789012345678901234567890, "x": 1e400}',
    ),
    ("tagged", qwen(n="123456789012345678901234567890"), '{"n": 123456789012345678901234567890}'),
    # No arguments.
    ("gemma", "{}", "{}"),
    ("no braces", "", "{}"),
    ("nested", "", "{}"),
    ("pythonic", "", "{}"),
    ("tagged", "", "{}"),
    ("key tags", "", "{}"),
]


@pytest.mark.parametrize(("form", "text", "written"), WRITTEN)
def test_the_json_of_a_text(form, text, written):
    ends = {
        "gemma": "<tool_call|>",
        "no braces": "}<end_function_call>",
        "nested": f"{NS}</invoke>",
    }
    end = ends.get(form, ")]" if form == "pythonic" else "</function>")
    for marks in [NO_MARKS, *([MARKS[form]] if form in ("gemma", "nested") else [])]:
        assert parse(form, text + end, marks) == (written, end)


LEAF = tag("item", tag("v", "1"), tag("kids"))
ONE = {"v": "1", "kids": []}
JSON_OBJECT = {"k": 'it\'s / "x"\n', "ok": True, "l": [None, {"e": "🎉"}]}
VALUES: list[tuple[str, str, Any]] = [
    # Words of Python, white space, and keys as strings.
    (
        "gemma",
        f"{{ a : True ,\n {Q}b c{Q} : [ None , False ] }}",
        {"a": True, "b c": [None, False]},
    ),
    ("nested", tag("l") + tag("o") + tag("both"), {"l": [], "o": {}, "both": []}),
    (
        "nested",
        tag("t", tag("v", "0"), tag("kids", LEAF, tag("item", tag("kids", LEAF)))),
        {"t": {"v": "0", "kids": [ONE, {"kids": [ONE]}]}},
    ),
    (
        "nested",
        f"\n{NS}<l>\n{tag('item', ' a ')}\n{NS}</l>\n{tag('n', ' 3 ')}",
        {"l": [" a "], "n": 3},
    ),
    *(
        ("nested", tag(key, text), {key: value})
        for key, text, value in [
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
        ]
    ),
    *(
        ("tagged", qwen(**{key: text}), {key: value})
        for key, text, value in [
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
            ("undeclared", '{"a": ["\\n</parameter>\\n"]}', {"a": [QWEN_END]}),
            ("undeclared", "[]", []),
            ("undeclared", "tru", "tru"),
        ]
    ),
    (
        "tagged",
        qwen(n="12", l='["</parameter>\\n", "\\"\\n</parameter>\\n"]', o='{"a": {"b": null}}'),
        {"n": 12, "l": ["</parameter>\n", f'"{QWEN_END}'], "o": {"a": {"b": None}}},
    ),
    ("tagged", qwen(s="x") + qwen(s="y"), {"s": "y"}),  # the last one counts
    (
        "typed",
        '<parameter name="s" string="true">5</parameter>\n'
        '<parameter name="either" string="false">5</parameter>\n'
        '<parameter name="maybe" string="true">null</parameter>\n',
        {"s": "5", "either": 5, "maybe": "null"},
    ),
    (
        "cdata",
        '<param name="s"><![CDATA[a < b && </param>\n]]></param><param name="maybe"><![C</param>',
        {"s": "a < b && </param>\n", "maybe": "<![C"},
    ),
    ("escaped", '<a key="&quot;x&amp;&quot;">1</a>', {'"x&"': 1}),
    ("pythonic", "a=true, b=false, c=null", {"a": True, "b": False, "c": None}),
    ("pythonic", "from='x', a-b=1, ключ=2", {"from": "x", "a-b": 1, "ключ": 2}),
    ("json objects", f"o={json.dumps(JSON_OBJECT)}, a='b'", {"o": JSON_OBJECT, "a": "b"}),
    (
        "json objects",
        f"o={json.dumps(JSON_OBJECT)}, a='b'".replace("/", "\\/"),
        {"o": JSON_OBJECT, "a": "b"},
    ),
]


@pytest.mark.parametrize(("form", "text", "value"), VALUES)
def test_the_values_of_a_text(form, text, value):
    assert value_of(form, text) == value
    if form == "gemma":
        assert value_of(form, text, MARKS[form]) == value


def by_python(text: str) -> dict[str, Any]:
    call = ast.parse(f"f({text})", mode="eval").body
    assert isinstance(call, ast.Call)
    return {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}


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
def test_values_of_a_call_are_those_that_python_reads(text):
    assert value_of("pythonic", text) == by_python(text)


@pytest.mark.parametrize(
    ("form", "parts"),
    [
        (
            "gemma",
            {f"{{a:{Q}on": '{"a": "on', 'e<|"': "e", "|>": '"', "}": "}"},
        ),
        (
            "nested",
            {f"{NS}<s>on": '{"s": "on', "e]<]": "e", "mini": "", "mum": "]<]minimum"},
        ),
        (
            "pythonic",
            {
                "a='on": '{"a": "on',
                "e\\": "e",
                "n": "\\n",
                "', ": '"',
                "b=1": ', "b": ',
                ")": "1}",
            },
        ),
        (
            "tagged",
            {qwen(n="12") + "<": '{"n": 12', "/": "}"},
        ),
    ],
)
def test_a_value_streams(form, parts):
    reading = parser(form)
    for part, written in parts.items():
        assert reading.feed(part) == written


def test_text_that_looks_like_a_mark_stays_text():
    quote = MARKS["gemma"].encode(Q)
    written = parser("gemma", MARKS["gemma"]).feed(f"{{a:{quote}x{Q}{quote}}}")
    assert json.loads(written) == {"a": f"x{Q}"}
    encode: Callable[[str], str] = MARKS["key tags"].encode
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


@pytest.mark.parametrize(
    ("form", "text", "written"),
    [
        ("gemma", f"{{a:{Q}x", '{"a": "x'),
        ("gemma", f"{{a:{Q}x<|", '{"a": "x<|'),
        ("gemma", "{a:12", '{"a": 12'),
        ("gemma", "{a:tr", '{"a": '),
        ("gemma", "{a", ""),
        ("gemma", "", ""),
        ("nested", f"{NS}<s>x", '{"s": "x'),
        ("nested", f"{NS}<s>x]<]mini", '{"s": "x'),
        ("nested", f"{NS}<n>12", '{"n": '),
        ("nested", f"{NS}<s", "{"),
        ("nested", "", ""),
        ("pythonic", "a='x", '{"a": "x'),
        ("pythonic", "a='x\\", '{"a": "x'),
        ("pythonic", "a=[1, 23", '{"a": [1, 23'),
        ("pythonic", "a=Tr", '{"a": '),
        ("pythonic", "a", ""),
        ("pythonic", "o={'k", '{"o": {"k'),
    ],
)
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


@pytest.mark.parametrize(
    ("form", "text", "at"),
    [
        ("gemma", "a:1}", 0),
        ("gemma", "{a:x}", 3),
        ("gemma", '{a:"x"}', 3),
        ("gemma", "{a,b:1}", 1),
        ("gemma", "{:1}", 1),
        ("gemma", "{a:01}", 3),
        ("gemma", "{a:[1}", 5),
        ("gemma", "{a:{b:1]}", 7),
        ("pythonic", "'x')", 0),
        ("pythonic", "a)", 0),
        ("pythonic", "a=x)", 2),
        ("pythonic", "a=01)", 2),
        ("pythonic", "a=1_000)", 2),
        ("pythonic", "a='x' 'y')", 6),
        ("pythonic", "a=(1, 2))", 2),
        ("pythonic", "a={1: 2})", 3),
        ("pythonic", "a={'k' 2})", 7),
        ("pythonic", "a=[1}", 4),
        ("pythonic", "a='\\xg0')", 3),
        ("pythonic", "a='\\U00110000')", 3),
        ("pythonic", "=1)", 0),
        ("nested", f"{NS}<s>x{NS}</n>", None),
        ("nested", f"{NS}<s>x{NS}<k>", None),
        ("nested", f"{NS}<>", None),
        ("nested", tag("n", "x"), None),
        ("nested", tag("n", "01"), None),
        ("nested", tag("n"), None),
        ("nested", tag("l", tag("k", "x")), None),
        ("nested", f"{NS}<o>{tag('k', 'x')}text{NS}</o>", None),
    ],
)
def test_other_text_is_an_error(form, text, at):
    """`at`: the place that the error names."""
    with pytest.raises(ArgumentsError) as raised:
        parser(form).feed(text if at is not None else f"{text}{NS}</invoke>")
    assert at is None or raised.value.at == at


@pytest.mark.parametrize(
    ("form", "text", "error"),
    [
        ("gemma", f"{{a:{Q}x<tool_call|>{Q}}}", "marker token"),
        ("nested", tag("s", "x[e~["), "marker token"),
        ("pythonic", "a='x<|end|>')", "marker token"),
        ("key tags", "<key>s</key><value><key></value>", "marker token"),
        ("pythonic", "a=" + "[" * 1000, "nested"),
        ("tagged", "<parameter=s>\nx</parameter>\n", "closed in an unexpected form"),
        ("tagged", "<parameter=s>\nx\n</parameter>;", "closed in an unexpected form"),
        (
            "typed",
            '<parameter name="either" string="maybe">5</parameter>\n</invoke>',
            "type attribute",
        ),
    ],
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
        ({"$ref": "#/$defs/text"}, {"string"}),
        ({"$ref": "#/$defs/loop"}, {"null"} | ALL),
        ({}, ALL),
        (True, ALL),
    ],
)
def test_types_of_a_declared_argument(schema, types):
    loop = {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/loop"}]}
    parameters = {"properties": {"a": schema}, "$defs": {"text": {"type": "string"}, "loop": loop}}
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
