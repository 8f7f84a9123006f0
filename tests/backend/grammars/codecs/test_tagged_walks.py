"""Random walks through the grammars of arguments in tags, read by regular expressions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

import jsonschema
import pytest

from tests.backend.grammars.codecs.tagged_forms import FORMS, model
from tests.support.effort import repeats
from tests.support.grids import sampled
from toolgate_core.dialects.codecs import Tagged

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
@sampled("name, schema_name", FORMS, SCHEMAS, one_in=2)
def test_random_walks_give_valid_arguments(name: str, schema_name: str) -> None:
    codec, schema = FORMS[name].codec, SCHEMAS[schema_name]
    made = model(name)
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
    hostile = [made.form.marks.decode(text) for text in hostile]
    walks = made.valid_walks(schema, repeats(6, nightly=12), hostile)
    seen = [*islice(walks, ENOUGH)]
    for arguments, text in seen:
        assert arguments == read(codec, text, partial(types_of, schema_name)), text
    assert len(seen) >= 2


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
    for seed in range(repeats(3, nightly=6)):
        written = made.walk(grammar, seed, [made.form.marks.decode(text) for text in hostile])
        if written is not None:
            jsonschema.validate(json.loads(made.parsed(schema, written)), schema)
