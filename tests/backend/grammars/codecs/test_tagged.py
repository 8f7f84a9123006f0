"""Grammars of arguments in tags, walked at random and read by a reader that shares no code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import jsonschema
import pytest

from tests.support.dialects.codec_walks import CodecModel
from toolgate_core.dialects.codecs import Tagged
from toolgate_core.dialects.dialect import ARGUMENTS, NAME, Calls, Dialect

GLM_MARKS = ("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>")
DSML_TYPES = tuple(
    (kind, "true" if kind == "string" else "false")
    for kind in ("string", "integer", "number", "boolean", "null", "array", "object")
)
K3_TYPES = tuple(
    (kind, {"integer": "number"}.get(kind, kind))
    for kind in ("string", "integer", "number", "boolean", "null", "array", "object")
)


@dataclass(frozen=True)
class Form:
    codec: Tagged
    before: str
    after: str
    tokens: tuple[str, ...] = ()

    @property
    def dialect(self) -> Dialect:
        call = (self.before, NAME, "|", ARGUMENTS, self.after)
        return Dialect(name="made-up", calls=Calls(call=call, codec=self.codec))


FORMS = {
    "lines": Form(
        Tagged("<parameter=", ">\n", "\n</parameter>\n", close="</parameter>"), "<f=", "</f>"
    ),
    "no_lines": Form(
        Tagged("<parameter=", ">", "</parameter>\n", close="</parameter>"), "<f=", "</f>"
    ),
    "key_tags": Form(
        Tagged("<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n", close="</arg_value>"),
        "<tool_call>",
        "</tool_call>",
        GLM_MARKS,
    ),
    "key_tags_in_text": Form(
        Tagged("<arg_key>", "</arg_key><arg_value>", "</arg_value>", close="</arg_value>"),
        "<tool_call>",
        "</tool_call>",
    ),
    "typed": Form(
        Tagged(
            '<|D|parameter name="',
            '" string="{type}">',
            "</|D|parameter>\n",
            close="</|D|parameter>",
            types=DSML_TYPES,
        ),
        "<|D|invoke>",
        "</|D|invoke>",
        ("|D|",),
    ),
    "typed_tokens": Form(
        Tagged(
            '<|open|>argument key="',
            '" type="{type}"<|sep|>',
            "<|close|>argument<|sep|>",
            close="<|close|>argument<|sep|>",
            types=K3_TYPES,
            escapes=(("&", "&amp;"), ('"', "&quot;")),
        ),
        "<|open|>call",
        "<|close|>call<|sep|>",
        ("<|open|>", "<|sep|>", "<|close|>"),
    ),
    "no_less_than": Form(Tagged('<p name="', '">', "</p>", close="<"), "<i>", "</i>"),
    "cdata": Form(
        Tagged('<param name="', '">', "</param>", close="</param>", cdata=True), "<f>", "</f>"
    ),
}
SCHEMAS: dict[str, dict[str, Any]] = {
    "text": {"properties": {"a": {"type": "string"}}, "required": ["a"]},
    "bounded": {"properties": {"a": {"type": "string", "minLength": 2, "maxLength": 12}}},
    "pattern": {"properties": {"a": {"type": "string", "pattern": "^[a-c]{1,3}-\\d{2}$|end$"}}},
    "enum": {
        "properties": {"a": {"enum": ["Paris", "New York", ""]}, "b": {"const": "x"}},
        "required": ["b"],
    },
    "numbers": {
        "properties": {
            "n": {"type": "integer", "minimum": 1, "maximum": 50},
            "x": {"type": "number"},
        },
        "required": ["n", "x"],
    },
    "nullable": {
        "properties": {"a": {"type": ["string", "null"]}, "b": {"type": ["boolean", "null"]}},
        "required": ["a"],
    },
    "either": {"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}},
    "untyped": {"properties": {"a": {}, "b": {"enum": ["1", 1, None]}}, "required": ["a", "b"]},
    "containers": {
        "properties": {
            "l": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
            "o": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
            "s": {"type": ["string", "array"], "items": {"type": "integer"}},
        },
    },
    "formats": {
        "properties": {
            "d": {"type": "string", "format": "date"},
            "u": {"type": "string", "format": "uuid"},
        },
        "required": ["d"],
    },
    "references": {
        "properties": {"t": {"$ref": "#/$defs/tree"}, "s": {"$ref": "#/$defs/s"}},
        "$defs": {
            "s": {"type": "string", "maxLength": 5},
            "tree": {
                "type": "object",
                "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
            },
        },
    },
    "branches": {
        "type": "object",
        "anyOf": [
            {"properties": {"k": {"const": "a"}, "v": {"type": "string"}}, "required": ["k", "v"]},
            {"properties": {"k": {"const": "b"}, "v": {"type": "integer"}}, "required": ["k", "v"]},
        ],
    },
    "itself": {"properties": {"next": {"$ref": "#"}, "v": {"type": "integer"}}},
    "open": {"type": "object", "additionalProperties": {"type": "integer"}},
    "nothing": {"type": "object", "properties": {}, "additionalProperties": False},
}


@lru_cache(maxsize=1)
def model(name: str) -> CodecModel:
    return CodecModel(FORMS[name].dialect, FORMS[name].tokens)


def read(codec: Tagged, text: str, typed: Callable[[str], set[str]]) -> dict[str, Any]:
    """The arguments in `text`, by regular expressions. `typed` gives the types of a key."""
    found: dict[str, Any] = {}
    begin, middle = re.escape(codec.begin), re.escape(codec.middle)
    middle = middle.replace(re.escape("{type}"), "(?P<type>[a-z]+)")
    head = re.compile(f"{begin}(?P<key>.*?){middle}", re.DOTALL)
    at = 0
    while at < len(text):
        match = head.match(text, at)
        assert match, text[at:]
        key = match["key"]
        for char, written in reversed(codec.escapes):
            key = key.replace(written, char)
        assert key not in found
        at = match.end()
        types = typed(key)
        if codec.types:
            kinds = {kind for kind, attribute in codec.types if attribute == match["type"]}
            types = {"string"} if "string" in kinds else kinds
        try:
            value, after = json.JSONDecoder().raw_decode(text, at)
            kind = {bool: "boolean", int: "integer", float: "number", list: "array"}.get(
                type(value)
            )
            kind = kind or {dict: "object", str: "text"}.get(type(value), "null")
            is_json = kind in types and text.startswith(codec.end, after)
        except ValueError:
            is_json = False
        if is_json:
            found[key], at = value, after + len(codec.end)
            continue
        assert "string" in types, text[at:]
        if codec.cdata and text.startswith("<![CDATA[", at):
            stop = text.index("]]>", at)
            found[key], at = text[at + 9 : stop], stop + 3
        else:
            stop = text.index(codec.close, at) - codec.end.index(codec.close)
            found[key], at = text[at:stop], stop
        assert text.startswith(codec.end, at), text[at:]
        at += len(codec.end)
    return found


TYPES: dict[tuple[str, str], set[str]] = {
    ("numbers", "n"): {"integer"},
    ("numbers", "x"): {"integer", "number"},
    ("nullable", "a"): {"string", "null"},
    ("nullable", "b"): {"boolean", "null"},
    ("either", "a"): {"string", "integer"},
    ("untyped", "a"): {"string", "null", "boolean", "integer", "number", "array", "object"},
    ("untyped", "b"): {"string", "integer", "null"},
    ("containers", "l"): {"array"},
    ("containers", "o"): {"object"},
    ("containers", "s"): {"string", "array"},
    ("references", "t"): {"object"},
    ("branches", "v"): {"string", "integer"},
    ("itself", "next"): {"object"},
    ("itself", "v"): {"integer"},
}


def types_of(schema: str, key: str) -> set[str]:
    return TYPES.get((schema, key), {"integer"} if schema == "open" else {"string"})


ENOUGH = 4
"""Whole calls after which a test has seen enough of a form and a schema."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("schema_name", SCHEMAS)
def test_random_walks_give_valid_arguments(name: str, schema_name: str) -> None:
    codec, schema = FORMS[name].codec, SCHEMAS[schema_name]
    made = model(name)
    grammar = made.grammar(schema)
    hostile = [codec.end, codec.end, codec.end, codec.close, codec.end[:-2], "null", "5", "true"]
    hostile += [
        "\n",
        "{",
        "[",
        " ",
        '"',
        "日本",
        codec.begin,
        FORMS[name].after,
        "]]>",
        "<![CDATA[",
    ]
    whole = 0
    for seed in range(12):
        written = made.walk(grammar, seed, [made.form.marks.decode(text) for text in hostile])
        if written is None:
            continue
        whole += 1
        arguments = json.loads(made.parsed(schema, written))
        jsonschema.validate(arguments, schema)
        text = made.form.marks.decode(written)
        assert arguments == read(codec, text, partial(types_of, schema_name)), text
        if whole == ENOUGH:
            return
    assert whole >= 2


def qwen(**values: str) -> str:
    return "".join(f"<parameter={k}>\n{v}\n</parameter>\n" for k, v in values.items())


@pytest.mark.parametrize(
    ("schema", "text", "accepted"),
    [
        ({"type": "string"}, qwen(a="x"), True),
        ({"type": "string"}, qwen(a=""), True),
        ({"type": "string"}, qwen(a="a\n</parameter>"), False),
        ({"type": "string"}, qwen(a="x") + qwen(a="x"), False),
        ({"type": "string"}, "", False),
        ({"enum": ["Paris"]}, qwen(a="Paris"), True),
        ({"enum": ["Paris"]}, qwen(a=" Paris"), False),
        ({"type": ["string", "null"]}, qwen(a="null"), True),
        ({"anyOf": [{"type": "string", "minLength": 5}, {"type": "null"}]}, qwen(a="null"), True),
        ({"anyOf": [{"type": "string", "minLength": 5}, {"type": "null"}]}, qwen(a="nul"), False),
        ({"type": ["string", "integer"]}, qwen(a="5"), True),
        ({"type": ["string", "integer"]}, qwen(a="5 apples"), True),
        ({"type": ["string", "object"]}, qwen(a="{x"), False),
        ({"type": "integer", "maximum": 5}, qwen(a="6"), False),
        ({"type": "string", "pattern": "^a"}, qwen(a="ab"), True),
        ({"type": "string", "pattern": "^a"}, qwen(a="ba"), False),
        ({"type": "string", "format": "ipv6"}, qwen(a="fe80::1"), True),
        ({"type": "string", "format": "ipv6"}, qwen(a="fe80::1::2"), False),
        ({"type": "string", "format": "uri"}, qwen(a="https://a.example/b?c#d"), True),
        ({"type": "string", "format": "duration"}, qwen(a="P1DT2H"), True),
        ({"type": "string", "format": "duration"}, qwen(a="1 day"), False),
    ],
)
def test_texts(schema: Any, text: str, accepted: bool) -> None:
    made = model("lines")
    grammar = made.grammar({"properties": {"a": schema}, "required": ["a"]})
    assert made.accepts(grammar, text) is accepted


def test_arguments_come_in_any_order_and_required_ones_must_come() -> None:
    made = model("lines")
    names = [f"p{at}" for at in range(12)]
    schema = {"properties": {name: {"type": "string"} for name in names}, "required": names[:2]}
    grammar = made.grammar(schema)
    assert made.accepts(grammar, qwen(p7="x", p1="y", p0="z", p11=""))
    assert not made.accepts(grammar, qwen(p7="x", p1="y"))


def test_more_arguments_than_bits_come_in_the_order_of_the_schema() -> None:
    made = model("lines")
    properties = {f"p{at}": {"type": "string"} for at in range(70)}
    grammar = made.grammar({"properties": properties, "required": ["p3"]})
    assert made.accepts(grammar, qwen(p1="x", p3="y", p69="z"))
    assert not made.accepts(grammar, qwen(p3="x", p1="y"))
    assert not made.accepts(grammar, qwen(p1="x"))


def test_values_that_cannot_be_written_are_refused_by_name() -> None:
    made = model("lines")
    only = {"properties": {"a": {"enum": ["x</parameter>"]}}, "required": ["a"]}
    verdict, _ = made.verdict(only)
    assert (verdict.status, verdict.pointer) == ("refused", "/properties/a")
    verdict, _ = made.verdict({"properties": {"a>b": {"type": "string"}}, "required": ["a>b"]})
    assert (verdict.status, verdict.pointer) == ("refused", "/properties/a>b")
    several = {"properties": {"a": {"enum": ["x</parameter>", "y"]}}, "required": ["a"]}
    grammar = made.grammar(several)
    assert made.accepts(grammar, qwen(a="y"))
    assert not made.accepts(grammar, qwen(a="x</parameter>"))


def test_bounds_of_a_number_beside_a_string_are_left_to_validation() -> None:
    either = {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 3}]}
    verdict, grammar = model("lines").verdict({"properties": {"a": either}})
    assert grammar is not None
    assert [one.pointer for one in verdict.residual] == ["/properties/a/anyOf/1/minimum"]


def test_a_pattern_that_raw_text_cannot_have_is_left_to_validation() -> None:
    schema = {"properties": {"a": {"type": "string", "pattern": "a(^b|c)"}}, "required": ["a"]}
    verdict, grammar = model("lines").verdict(schema)
    assert grammar is not None
    assert [one.pointer for one in verdict.residual] == ["/properties/a/pattern"]


def test_a_length_beyond_what_masks_count_is_left_to_validation() -> None:
    schema = {"properties": {"a": {"type": ["string", "null"], "maxLength": 4096}}}
    verdict, grammar = model("lines").verdict(schema)
    assert grammar is not None
    assert [one.pointer for one in verdict.residual] == ["/properties/a/maxLength"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", list(FORMS))
def test_counted_texts_with_parts_of_the_end_do_not_exceed_a_limit_of_the_engine(name: str) -> None:
    made = model(name)
    codec = FORMS[name].codec
    schema = {
        "properties": {"a": {"type": ["string", "null"], "maxLength": 100}},
        "required": ["a"],
    }
    grammar = made.grammar(schema)
    hostile = ["\n" * 5, codec.end, codec.close, codec.end[:-2], codec.close + " ", "x" * 20]
    for seed in range(6):
        written = made.walk(grammar, seed, [made.form.marks.decode(text) for text in hostile])
        if written is not None:
            jsonschema.validate(json.loads(made.parsed(schema, written)), schema)
