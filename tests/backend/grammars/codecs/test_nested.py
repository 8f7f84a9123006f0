"""Grammars of arguments in nested tags, walked at random and compared with the tree of tags."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest

from tests.support.dialects.codec_schemas import CODEC_SCHEMAS
from tests.support.dialects.codec_walks import CodecModel
from tests.support.grids import sampled
from toolgate_core.dialects.codecs import NestedTags
from toolgate_core.dialects.dialect import ARGUMENTS, NAME, Calls, Dialect

NS = "]<]minimax[>["
CODEC = NestedTags(NS)
TOKENS: dict[str, tuple[str, ...]] = {"token": (NS, "[e~["), "text": ()}
HOSTILE = [
    NS, NS, NS + "</", "]<]minimax[>", "]<]", "</a>", "<item>", "</item>", "<", ">", "]", "\n", " ",
    '"', "日本", "🎉", "null", "true", "5", "{", "[", "-",
]  # fmt: skip


@cache
def model(name: str) -> CodecModel:
    call = (f'{NS}<invoke name="', NAME, '">', ARGUMENTS, f"{NS}</invoke>\n")
    calls = Calls(begin=f"{NS}<tool_call>\n", call=call, end=f"{NS}</tool_call>", codec=CODEC)
    return CodecModel(Dialect(name="made-up", calls=calls), TOKENS[name])


def tree(text: str) -> list[Any]:
    """The tags in a text: pairs of a name and the text or the list of tags inside."""
    found: list[Any] = []
    while text:
        match = re.match(re.escape(NS) + "<([^<>/]+)>", text)
        assert match, text
        end, depth = match.end(), 1
        for tag in re.finditer(re.escape(NS) + "<(/?)[^<>/]+>", text[match.end() :]):
            depth += -1 if tag[1] else 1
            if not depth:
                inner = text[match.end() : match.end() + tag.start()]
                assert tag.group() == f"{NS}</{match[1]}>"
                end += tag.end()
                break
        assert not depth, text
        found.append((match[1], tree(inner) if inner.startswith(NS) else inner))
        text = text[end:]
    return found


def same(inner: Any, value: Any) -> bool:
    """Whether the tags stand for this value."""
    if isinstance(value, dict):
        if not value:
            return bool(inner == "")
        names = [name for name, _ in inner]
        return names == list(value) and all(same(each, value[name]) for name, each in inner)
    if isinstance(value, list):
        if not value:
            return bool(inner == "")
        items = len(inner) == len(value) and {name for name, _ in inner} == {"item"}
        return items and all(map(same, [each for _, each in inner], value))
    if isinstance(value, str):
        return bool(inner == value)
    return isinstance(inner, str) and repr(json.loads(inner)) == repr(value)


@pytest.mark.exhaustive
@sampled("name, schema_name", TOKENS, CODEC_SCHEMAS, one_in=2)
def test_random_walks_give_valid_arguments(name: str, schema_name: str) -> None:
    schema = CODEC_SCHEMAS[schema_name]
    made = model(name)
    assert not made.verdict(schema)[0].residual
    walks = [*made.valid_walks(schema, 5, HOSTILE)]
    for arguments, text in walks:
        assert same(tree(text), arguments) if arguments else text == "", text
    assert walks


def tag(name: str, *inner: str) -> str:
    return f"{NS}<{name}>{''.join(inner)}{NS}</{name}>"


@pytest.mark.parametrize("name", TOKENS)
@pytest.mark.parametrize(
    ("schema", "value", "accepted"),
    [
        ({"type": "string"}, "x", True),
        ({"type": "string"}, "", True),
        ({"type": "string"}, " \n</a> 日本", True),
        ({"type": "string"}, "5", True),
        ({"type": "string", "minLength": 1}, "", False),
        ({"type": "string", "maxLength": 2}, "日本", True),
        ({"type": "string", "maxLength": 2}, "abc", False),
        ({"type": "string", "pattern": "^a.$"}, "ab", True),
        ({"type": "string", "pattern": "^a.$"}, "ba", False),
        ({"enum": ["Paris", ""]}, "", True),
        ({"enum": ["Paris", ""]}, "paris", False),
        ({"type": ["string", "null"]}, "x", True),
        ({"type": ["string", "null"]}, "null", False),
        ({"type": ["string", "integer"]}, "5", True),
        ({"type": ["string", "integer"]}, "5 apples", True),
        ({"enum": ["1", 2]}, "2", True),
        ({"enum": ["1", 2]}, "1", False),
        ({"type": "integer", "maximum": 5}, "6", False),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "True", False),
        ({"type": "array", "items": {"type": "integer"}}, tag("item", "1") * 2, True),
        ({"type": "array", "items": {"type": "integer"}}, "", True),
        ({"type": "array", "items": {"type": "integer"}}, tag("x", "1"), False),
        ({"type": ["string", "array"]}, "", True),
        ({"type": "object", "properties": {"k": {"type": "string"}}}, tag("k", "x"), True),
        ({"type": "object", "properties": {"k": {"type": "string"}}}, tag("l", "x"), False),
        ({"enum": [{"b": [1, "x"]}]}, None, True),
    ],
)
def test_texts(name: str, schema: Any, value: str | None, accepted: bool) -> None:
    made = model(name)
    grammar = made.grammar({"properties": {"a": schema}, "required": ["a"]})
    if value is None:
        value = tag("b", tag("item", "1"), tag("item", "x"))
    assert made.accepts(grammar, tag("a", value)) is accepted


def test_an_end_tag_has_the_name_of_its_begin_tag() -> None:
    made = model("token")
    grammar = made.grammar({"properties": {"a": {"type": "integer"}}, "required": ["a"]})
    assert not made.accepts(grammar, f"{NS}<a>1{NS}</b>")


def test_arguments_come_in_any_order_and_required_ones_must_come() -> None:
    made = model("token")
    names = [f"p{at}" for at in range(12)]
    schema = {"properties": {name: {"type": "integer"} for name in names}, "required": names[:2]}
    grammar = made.grammar(schema)
    assert made.accepts(grammar, tag("p7", "1") + tag("p1", "2") + tag("p0", "3"))
    assert not made.accepts(grammar, tag("p7", "1") + tag("p1", "2"))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "null"},
        {"const": f"x{NS}"},
        {"type": "array", "items": {"type": "null"}, "minItems": 1},
    ],
)
def test_values_that_cannot_be_written_are_refused_by_name(schema: Any) -> None:
    made = model("text")
    verdict, _ = made.verdict({"properties": {"a": schema}, "required": ["a"]})
    assert (verdict.status, verdict.pointer) == ("refused", "/properties/a")
    assert made.accepts(made.grammar({"properties": {"a": schema}}), "")


NAMES: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "integer"}}
LETTERS = NAMES | {"propertyNames": {"pattern": "^[a-z ]+$"}}
LISTED = NAMES | {"propertyNames": {"enum": ["a", "b"]}}


@pytest.mark.parametrize("name", TOKENS)
@pytest.mark.parametrize(
    ("schema", "members", "accepted"),
    [
        (LETTERS, "", True),
        (LETTERS, tag("ab", "1"), False),  # only names that the schema has are written
        (LISTED, tag("a", "1") + tag("b", "2"), True),
        (LISTED, tag("c", "1"), False),
    ],
)
def test_names_by_pattern_and_by_list(name: str, schema: Any, members: str, accepted: bool) -> None:
    made = model(name)
    for parameters, text in [
        ({"properties": {"o": schema}, "required": ["o"]}, tag("o", members)),
        (schema, members),
    ]:
        verdict, grammar = made.verdict(parameters)
        assert grammar is not None, verdict
        assert not verdict.residual
        assert made.accepts(grammar, text) is accepted


def test_recursion_through_null_ends() -> None:
    node = {
        "type": "object",
        "properties": {
            "v": {"type": "integer"},
            "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
        },
        "required": ["v"],
    }
    schema = {"properties": {"l": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}
    made = model("token")
    grammar = made.grammar(schema)
    assert made.accepts(grammar, tag("l", tag("v", "1"), tag("next", tag("v", "2"))))
    node["required"] = ["v", "next"]
    grammar = made.grammar(schema)
    assert made.accepts(grammar, "")
    assert not made.accepts(grammar, tag("l", tag("v", "1")))


def test_bounds_of_a_number_beside_a_string_are_left_to_validation() -> None:
    either = {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 3}]}
    verdict, grammar = model("text").verdict({"properties": {"a": either}})
    assert grammar is not None
    assert [one.pointer for one in verdict.residual] == ["/properties/a/anyOf/1/minimum"]
