"""Objects and arguments that the grammars of arguments accept and refuse, in each form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .forms import FAMILIES, GEMMA, NESTED, NS, PYTHONIC, model, quoted, qwen, tag

S, N = {"type": "string"}, {"type": "integer"}
NULL, FLAG = {"type": "null"}, {"type": "boolean"}
NAMES: dict[str, Any] = {"type": "object", "additionalProperties": N}
LETTERS = NAMES | {"propertyNames": {"pattern": "^[a-z ]+$"}}
LISTED = NAMES | {"propertyNames": {"enum": ["a", "b c"]}}
DECLARED = {"properties": {"id": NULL, "No": NULL}, "required": ["id"]}
MEMBERS: list[tuple[str, dict[str, Any], Any, bool]] = [
    ("gemma", LETTERS, "", True),
    ("gemma", LETTERS, "ab:1,c:2", True),
    ("gemma", LETTERS, "ab:1,a1:2", False),
    ("gemma", LETTERS, "a b:1", False),
    ("gemma", LETTERS, "Qa 1Q:1", False),
    ("gemma", LETTERS, "QabQ:1", False),
    ("gemma", LETTERS, "ab:null", False),
    ("gemma", LISTED, "a:1,Qb cQ:2", True),
    ("gemma", LISTED, "c:1", False),
    ("nested", LETTERS, "", True),
    ("nested", LETTERS, tag("ab", "1"), False),  # only names that the schema has are written
    (
        "nested",
        NAMES | {"propertyNames": {"enum": ["a", "b"]}},
        tag("a", "1") + tag("b", "2"),
        True,
    ),
    ("nested", NAMES | {"propertyNames": {"enum": ["a", "b"]}}, tag("c", "1"), False),
    ("pythonic", LETTERS, {}, True),
    ("pythonic", LETTERS, {"ab": 1, "a b": 2}, True),
    ("pythonic", LETTERS, {"ab": 1, "a1": 2}, False),
    ("pythonic", LETTERS, {"": 1}, False),
    ("pythonic", LETTERS, {"a": None}, False),
    ("pythonic", LISTED, {"a": 1, "b c": 2}, True),
    ("pythonic", LISTED, {"c": 1}, False),
]


def texts_of(name: str, members: Any) -> tuple[list[str], list[str]]:
    """The texts of an object that is an argument, and of one that is all arguments."""
    if name in GEMMA:
        return [quoted(name, f"o:{{{members}}}")], [quoted(name, members)]
    if name in NESTED:
        return [tag("o", members)], [members]
    written = [json.dumps(members)]
    if name == "double":
        written = [repr(members), written[0].replace("null", "None")]
    return [f"o={text}" for text in written], []


@pytest.mark.parametrize(
    ("name", "schema", "members", "accepted"),
    [
        (name, schema, members, accepted)
        for form, schema, members, accepted in MEMBERS
        for name in {**FAMILIES, "pythonic": (*PYTHONIC,)}[form]
    ],
)
def test_names_by_pattern_and_by_list(
    name: str, schema: dict[str, Any], members: Any, accepted: bool
) -> None:
    made = model(name)
    inside, alone = texts_of(name, members)
    wrapped = {"properties": {"o": schema}, "required": ["o"]}
    for parameters, texts in ((wrapped, inside), (schema, alone)):
        verdict, grammar = made.verdict(parameters)
        assert grammar is not None, verdict
        assert not verdict.residual
        for text in texts:
            assert made.accepts(grammar, text) is accepted


NODE = {
    "type": "object",
    "properties": {"v": N, "next": {"anyOf": [{"$ref": "#/$defs/node"}, NULL]}},
    "required": ["v"],
}
ENDLESS = NODE | {"required": ["v", "next"]}
A_AND_OTHERS = {
    "properties": {"a": NULL},
    "required": ["a"],
    "additionalProperties": FLAG,
}
SORTED = {"properties": dict.fromkeys(("b", "A", "c"), N), "type": "object"}
OBJECT_OF_FLAG = {"type": "object", "properties": {"k": FLAG}}
ARGUMENTS: list[tuple[str, dict[str, Any], tuple[str, ...], tuple[str, ...]]] = [
    # Members are sorted as in chat templates.
    ("tokens", {"properties": {"o": SORTED}}, ("{o:{A:1,b:2,c:3}}",), ("{o:{b:2,A:1,c:3}}",)),
    ("tokens", A_AND_OTHERS, ("{b:true,a:null,ab:false}",), ("{a:null,a:true}",)),
    # A name that only the mark could write is not written.
    (
        "text",
        {"properties": {"o": NAMES | {"propertyNames": {"pattern": "^<escape>$"}}}},
        ("{o:{}}",),
        (),
    ),
    ("tokens", {"properties": {"a": {"enum": ['x<|"|>', 5]}}, "required": ["a"]}, ("{a:5}",), ()),
    (
        "text",
        {"properties": {"a": {"enum": ["x<escape>", 5]}}, "required": ["a"]},
        ("{a:5}",),
        (),
    ),
    # An end tag has the name of its begin tag.
    (
        "nested_token",
        {"properties": {"a": N}, "required": ["a"]},
        (),
        (f"{NS}<a>1{NS}</b>",),
    ),
    (
        "nested_token",
        {"properties": {"l": {"$ref": "#/$defs/node"}}, "$defs": {"node": NODE}},
        (tag("l", tag("v", "1"), tag("next", tag("v", "2"))),),
        (),
    ),
    (
        "nested_token",
        {"properties": {"l": {"$ref": "#/$defs/node"}}, "$defs": {"node": ENDLESS}},
        ("",),
        (tag("l", tag("v", "1")),),
    ),
    ("nested_text", {"properties": {"a": NULL}}, ("",), ()),
    ("json_objects", {"properties": {"o": OBJECT_OF_FLAG}}, ('o={"k": true}',), ("o={'k': True}",)),
    ("double", {"properties": {"a": N, "b": N}}, ("a=1, b=2",), ("a=1 b=2",)),
    (
        "double",
        A_AND_OTHERS | {"properties": {"a": S}},
        ("b=True, a='x', ab=False",),
        ("a='x', a=True", "b=True"),
    ),
    ("double", {"properties": {"a b": S, "c": NULL}}, ("c=None", ""), ()),
    # Keywords of Python can be names.
    ("double", {"properties": {"from": N}, "required": ["from"]}, ("from=1",), ()),
    ("double", LETTERS, ("ab=1, c=2",), ("a1=2", "a b=2")),
    ("double", NAMES | {"propertyNames": {"pattern": "^ [0-9]+$"}}, ("",), ()),
    # More arguments than bits come in the order of the schema.
    (
        "lines",
        {"properties": {f"p{at}": S for at in range(70)}, "required": ["p3"]},
        (qwen(p1="x", p3="y", p69="z"),),
        (qwen(p3="x", p1="y"), qwen(p1="x")),
    ),
    (
        "lines",
        {"properties": {"a": {"enum": ["x</parameter>", "y"]}}, "required": ["a"]},
        (qwen(a="y"),),
        (qwen(a="x</parameter>"),),
    ),
    ("lines", LETTERS, (qwen(ab="1", c="2"),), (qwen(a1="2"), qwen(ab="y"))),
    # Arguments by patterns are not written: their types depend on their names.
    (
        "lines",
        {"patternProperties": {"^x": N}, "additionalProperties": False},
        ("",),
        (qwen(xa="1"),),
    ),
]


@pytest.mark.parametrize(("name", "parameters", "accepted", "refused"), ARGUMENTS)
def test_arguments(
    name: str, parameters: dict[str, Any], accepted: tuple[str, ...], refused: tuple[str, ...]
) -> None:
    made = model(name)
    verdict, grammar = made.verdict(parameters)
    assert grammar is not None, verdict
    assert not verdict.residual
    assert all(made.accepts(grammar, text) for text in accepted)
    assert not any(made.accepts(grammar, text) for text in refused)


@pytest.mark.parametrize("name", ["tokens", "double"])
def test_names_by_pattern_beside_declared_ones_are_left_to_validation(name: str) -> None:
    verdict, grammar = model(name).verdict(LETTERS | DECLARED)
    assert grammar is not None
    assert [one.pointer for one in verdict.residual] == ["/propertyNames"]
