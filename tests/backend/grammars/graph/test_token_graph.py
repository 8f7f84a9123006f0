"""Masks and steps of token graphs are those of the engine's own matchers."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tests.support.dialects.marks import marks_of
from tests.support.dialects.model import DialectModel
from tests.support.grammars.graph_walks import Pair, graphs_of, walk
from toolgate_core.dialects.registry import DIALECTS

CODECS = {
    "qwen3": False,
    "qwen3_coder": False,
    "glm45": True,
    "deepseek_v32": False,
    "gemma4": True,
    "kimi_k3": True,
    "gpt_oss": True,
    "minimax_m3": True,
    "llama32_pythonic": False,
}
"""Dialects with each codec, and whether their marks are tokens."""


@cache
def model(dialect: str) -> DialectModel:
    return DialectModel(DIALECTS[dialect], marks_of(DIALECTS[dialect]) if CODECS[dialect] else ())


def parameters(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties][:1]}


SCHEMAS = {
    "free": parameters(a={"type": "string"}, n={"type": "integer"}, b={"type": "string"}),
    "list": parameters(a={"type": "array", "items": {"type": "string"}}, b={"type": "number"}),
    "listed": parameters(a={"type": "string", "enum": ["x", "xy", "z"]}, b={"type": "string"}),
    "maybe": parameters(
        a={"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "number"}]},
        b={"type": "string"},
    ),
    "strings": parameters(
        a={"anyOf": [{"type": "string", "enum": ["x", "xy"]}, {"type": "string"}]},
        b={"type": "string"},
    ),
    "lengths": parameters(a={"type": "string", "maxLength": 8}, b={"type": "string"}),
    "pattern": parameters(a={"type": "string", "pattern": "^[a-z ]+,"}, b={"type": "string"}),
    "any": parameters(a={}, b={"type": "string"}),
    "open": {"type": "object", "additionalProperties": {"type": "string"}},
    "nested": parameters(a=parameters(c={"type": "string"}, d={"type": "boolean"}), b={}),
}


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("dialect", CODECS)
@pytest.mark.parametrize("wide", [300, 4096])
def test_masks_are_those_of_the_engine(dialect: str, schema: str, wide: int) -> None:
    found = model(dialect)
    grammar = found.grammar("f", SCHEMAS[schema])
    graph = graphs_of(found, wide=wide).graph_of(grammar)
    head = found.static.completion.token_index.cover(grammar.fixed_prefix) or []
    compared = 0
    for seed in range(6):
        pair = Pair(found, graph, grammar)
        assert all(map(pair.accept, head))
        compared += walk(pair, found, seed)
    assert compared
