"""Values that the grammars of arguments accept and refuse, in each form."""

from __future__ import annotations

from typing import Any

import pytest

from .forms import FAMILIES, GEMMA, NESTED, model, quoted, qwen, tag

S, N = {"type": "string"}, {"type": "integer"}
NULL, FLAG = {"type": "null"}, {"type": "boolean"}
TWO = {"type": "string", "maxLength": 2}
PATTERN = {"type": "string", "pattern": "^a.$"}
PARIS = {"enum": ["Paris", ""]}
LIST = {"type": "array", "items": N}
OPEN = {"type": "object", "additionalProperties": True}
EITHER = {"type": ["string", "integer"]}
NULLABLE = {"anyOf": [{"type": "string", "minLength": 5}, NULL]}


VALUES: list[tuple[str, dict[str, Any], str, bool]] = [
    ("gemma", S, "QxQ", True),
    ("gemma", S, "QQ", True),
    ("gemma", S, 'Qit\'s "b" \\ \n日本Q', True),
    ("gemma", S, '"x"', False),
    ("gemma", S, "Qx", False),
    ("gemma", TWO, "Q日本Q", True),
    ("gemma", TWO, "QabcQ", False),
    ("gemma", {"type": "string", "minLength": 1}, "QQ", False),
    ("gemma", PATTERN, "QabQ", True),
    ("gemma", PATTERN, "QbaQ", False),
    ("gemma", PARIS, "QQ", True),
    ("gemma", PARIS, "QparisQ", False),
    ("gemma", {"enum": [{"b": [1], "A": "x\x7f"}]}, "{A:Qx\x7fQ,b:[1]}", True),
    ("gemma", FLAG, "true", True),
    ("gemma", FLAG, "True", False),
    ("gemma", NULL, "null", True),
    ("gemma", {"type": "integer", "maximum": 5}, "6", False),
    ("gemma", LIST, "[1,2]", True),
    ("gemma", LIST, "[1, 2]", False),
    ("gemma", OPEN, "{k:[{l:null}]}", True),
    ("gemma", {"type": "object", "properties": {"a b": NULL}}, "{Qa bQ:null}", True),
    ("nested", S, "x", True),
    ("nested", S, "", True),
    ("nested", S, " \n</a> 日本", True),
    ("nested", S, "5", True),
    ("nested", {"type": "string", "minLength": 1}, "", False),
    ("nested", TWO, "日本", True),
    ("nested", TWO, "abc", False),
    ("nested", PATTERN, "ab", True),
    ("nested", PATTERN, "ba", False),
    ("nested", PARIS, "", True),
    ("nested", PARIS, "paris", False),
    ("nested", {"type": ["string", "null"]}, "x", True),
    ("nested", {"type": ["string", "null"]}, "null", False),
    ("nested", EITHER, "5", True),
    ("nested", EITHER, "5 apples", True),
    ("nested", {"enum": ["1", 2]}, "2", True),
    ("nested", {"enum": ["1", 2]}, "1", False),
    ("nested", {"type": "integer", "maximum": 5}, "6", False),
    ("nested", FLAG, "true", True),
    ("nested", FLAG, "True", False),
    ("nested", LIST, tag("item", "1") * 2, True),
    ("nested", LIST, "", True),
    ("nested", LIST, tag("x", "1"), False),
    ("nested", {"type": ["string", "array"]}, "", True),
    ("nested", {"type": "object", "properties": {"k": S}}, tag("k", "x"), True),
    ("nested", {"type": "object", "properties": {"k": S}}, tag("l", "x"), False),
    ("nested", {"enum": [{"b": [1, "x"]}]}, tag("b", tag("item", "1"), tag("item", "x")), True),
    ("double", S, "a='x'", True),
    ("double", S, 'a="x"', True),
    ("double", S, "a=''", True),
    ("double", S, "a='it\\'s'", True),
    ("double", S, 'a="it\'s"', True),
    ("double", S, "a='a\nb'", False),
    ("double", S, "a='\\d'", False),
    ("double", S, 'a="\\/"', False),
    ("double", S, "a='x", False),
    ("double", S, "a=x", False),
    ("double", S, "a='x', a='y'", False),
    ("double", S, "", False),
    ("double", S, "b='x'", False),
    ("double", TWO, "a='\\n\\n'", True),
    ("double", TWO, "a='abc'", False),
    ("double", PATTERN, "a='ab'", True),
    ("double", PATTERN, 'a="a\'"', True),
    ("double", PATTERN, "a='abc'", False),
    (
        "double",
        {"type": "string", "format": "uuid"},
        "a='7d444840-9dc0-11d1-b245-5ffdce74fad2'",
        True,
    ),
    ("double", {"enum": ["\x7f\x01"]}, "a='\x7f\\x01'", True),
    ("double", {"enum": ["Paris"]}, "a='paris'", False),
    ("double", FLAG, "a=True", True),
    ("double", FLAG, "a=true", False),
    ("double", NULL, "a=None", True),
    ("double", {"type": "integer", "maximum": 5}, "a=6", False),
    ("double", LIST, "a=[1, 2]", True),
    ("double", LIST, "a=[1,2]", False),
    ("double", OPEN, "a={'k': [{'l': None}]}", True),
    ("lines", S, qwen(a="x"), True),
    ("lines", S, qwen(a=""), True),
    ("lines", S, qwen(a="a\n</parameter>"), False),
    ("lines", S, qwen(a="x") + qwen(a="x"), False),
    ("lines", S, "", False),
    ("lines", {"enum": ["Paris"]}, qwen(a="Paris"), True),
    ("lines", {"enum": ["Paris"]}, qwen(a=" Paris"), False),
    ("lines", {"type": ["string", "null"]}, qwen(a="null"), True),
    ("lines", NULLABLE, qwen(a="null"), True),
    ("lines", NULLABLE, qwen(a="nul"), False),
    ("lines", EITHER, qwen(a="5"), True),
    ("lines", EITHER, qwen(a="5 apples"), True),
    ("lines", {"type": ["string", "object"]}, qwen(a="{x"), False),
    ("lines", {"type": "integer", "maximum": 5}, qwen(a="6"), False),
    ("lines", {"type": "string", "pattern": "^a"}, qwen(a="ab"), True),
    ("lines", {"type": "string", "pattern": "^a"}, qwen(a="ba"), False),
    ("lines", {"type": "string", "format": "ipv6"}, qwen(a="fe80::1"), True),
    ("lines", {"type": "string", "format": "ipv6"}, qwen(a="fe80::1::2"), False),
    ("lines", {"type": "string", "format": "uri"}, qwen(a="https://a.example/b?c#d"), True),
    ("lines", {"type": "string", "format": "duration"}, qwen(a="P1DT2H"), True),
    ("lines", {"type": "string", "format": "duration"}, qwen(a="1 day"), False),
]


@pytest.mark.parametrize(
    ("name", "schema", "text", "accepted"),
    [
        (name, schema, text, accepted)
        for form, schema, text, accepted in VALUES
        for name in FAMILIES.get(form, (form,))
    ],
)
def test_values(name: str, schema: dict[str, Any], text: str, accepted: bool) -> None:
    if name in GEMMA:
        text = quoted(name, f"a:{text}")
    elif name in NESTED:
        text = tag("a", text)
    made = model(name)
    grammar = made.grammar({"properties": {"a": schema}, "required": ["a"]})
    assert made.accepts(grammar, text) is accepted
