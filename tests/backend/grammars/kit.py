"""Models with each codec, and the grammars of a few schemas."""

from functools import cache

from tests.support.dialects.model import DialectModel
from toolgate_core.dialects.marks import mark_texts
from toolgate_core.dialects.registry import DIALECTS

CODECS = {
    "qwen3": False,
    "qwen3_coder": False,
    "mimo_v2": False,
    "glm45": True,
    "deepseek_v32": False,
    "gemma4": True,
    "kimi_k3": True,
    "gpt_oss": True,
    "minimax_m3": True,
    "minicpm5": False,
    "llama32_pythonic": False,
}
"""Dialects with each codec, and whether their marks are tokens."""


def parameters(**properties):
    return {"type": "object", "properties": properties, "required": [*properties][:1]}


TEXT = {"type": "string"}
SCHEMAS = {
    "free": parameters(a=TEXT, n={"type": "integer"}, b=TEXT),
    "list": parameters(a={"type": "array", "items": TEXT}, b={"type": "number"}),
    "listed": parameters(a={"type": "string", "enum": ["x", "xy", "z"]}, b=TEXT),
    "maybe": parameters(a={"anyOf": [TEXT, {"type": "null"}, {"type": "number"}]}, b=TEXT),
    "strings": parameters(a={"anyOf": [{"type": "string", "enum": ["x", "xy"]}, TEXT]}, b=TEXT),
    "lengths": parameters(a={"type": "string", "maxLength": 8}, b=TEXT),
    "nonempty_free": parameters(a=TEXT | {"minLength": 1}, n={"type": "integer"}, b=TEXT),
    "long": parameters(a=TEXT | {"minLength": 7}, b=TEXT),
    "nonempty": parameters(a={"type": ["string", "null"], "minLength": 1}, b=TEXT),
    "pattern": parameters(a={"type": "string", "pattern": "^[a-z ]+,"}, b=TEXT),
    "words": parameters(a=TEXT | {"pattern": "^[A-Za-z0-9 .,'-]+$"}, b=TEXT, c=TEXT),
    "formats": parameters(
        a=TEXT | {"format": "date-time"},
        b=TEXT | {"format": "uuid"},
        c=TEXT | {"format": "uri"},
        d=TEXT | {"format": "email"},
        e=TEXT | {"format": "duration"},
        f=TEXT | {"format": "ipv4"},
    ),
    "bounds": parameters(
        a=TEXT | {"maxLength": 60}, b=TEXT | {"minLength": 3}, c=TEXT | {"maxLength": 12}, d=TEXT
    ),
    "mixed": parameters(
        a={"type": "array", "items": TEXT | {"pattern": "foo|^ba*r"}},
        b=TEXT | {"pattern": "^[a-z]{1,9}(-[a-z]+)*$", "maxLength": 14, "minLength": 2},
        c={"anyOf": [TEXT | {"maxLength": 9}, {"type": "null"}]},
        d={"type": "string", "enum": ["x", "xy", "2020"]},
        e={},
    ),
    "numbers": parameters(
        a={"type": "array", "items": {"type": "number"}}, n={"type": "integer", "minimum": -5}
    ),
    "counts": parameters(a={"type": "array", "items": {"type": "integer"}}, n={"type": "number"}),
    "any": parameters(a={}, b=TEXT),
    "open": {"type": "object", "additionalProperties": TEXT},
    "nested": parameters(a=parameters(c=TEXT, d={"type": "boolean"}), b={}),
}

ENDLESS_LARK = r"""start: value
CLOSED: /(?s:.*)/ "</p>" /(?s:.*)/ "\n</p>\n"
TEXT: /(?s:.{0,4096})/ "\n</p>\n"
VALUE: TEXT & ~CLOSED
value[lazy]: VALUE
"""
"""llguidance gives up in the middle of some texts."""


@cache
def model(dialect):
    return DialectModel(DIALECTS[dialect], mark_texts(DIALECTS[dialect]) if CODECS[dialect] else ())


@cache
def grammar(dialect, schema):
    return model(dialect).grammar("f", SCHEMAS[schema])
