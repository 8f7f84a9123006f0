"""Texts that the parsers of arguments refuse, and what is left of arguments that are cut."""

from __future__ import annotations

import json

import pytest

from toolgate_core.dialects.arguments.parser import ArgumentsError

from .forms import MARKS, NS, Q, parse, parser, qwen, tag


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
def test_cut_arguments(form: str, text: str, written: str) -> None:
    reading = parser(form)
    assert reading.feed(text) + reading.cut() == written
    assert not reading.finished


@pytest.mark.parametrize("length", range(len(qwen(s="abc", n="12"))))
def test_a_call_that_is_cut_does_not_look_whole(length: int) -> None:
    reading = parser("tagged")
    written = reading.feed(qwen(s="abc", n="12")[:length])
    written += reading.cut()
    assert not reading.finished
    with pytest.raises(json.JSONDecodeError):
        json.loads(written)


@pytest.mark.parametrize(("key", "value"), [("s", "a</b"), ("o", '{"k": "</"}')])
def test_a_mark_in_the_end_of_a_value_is_not_part_of_a_cut_value(key: str, value: str) -> None:
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
def test_other_text_is_an_error(form: str, text: str, at: int | None) -> None:
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
def test_the_error_says_what_is_wrong(form: str, text: str, error: str) -> None:
    with pytest.raises(ArgumentsError, match=error):
        parse(form, text, MARKS.get(form, MARKS["pythonic"]))
