"""Models with each codec, and the grammars of a few schemas."""

from functools import cache
from pathlib import Path

import yaml

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
_PROPERTIES = yaml.safe_load(Path(__file__).with_name("schemas.yaml").read_text())
SCHEMAS = {name: parameters(**each) for name, each in _PROPERTIES.items()}
SCHEMAS["open"] = {"type": "object", "additionalProperties": TEXT}

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
