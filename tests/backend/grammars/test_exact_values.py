"""Integers of any size and numbers of members are exact in masks, in every form of calls."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import jsonschema_rs
import pytest

from tests.support.dialects.codec_walks import CodecModel
from toolgate_core import grammar_key
from toolgate_core.dialects.mark_texts import mark_texts
from toolgate_core.dialects.registry import DIALECTS

ID, MAX = 1234567890123456789, 2**63 - 1
LISTED: dict[str, Any] = {"enum": [ID, ID + 1]}
RANGE = {"type": "integer", "minimum": 2**53 + 1, "maximum": 2**53 + 7}
TEXT = {"type": "string", "maxLength": 2}
ABC = {"type": "object", "properties": {name: {"type": "boolean"} for name in "abc"}}
MAP = {"type": "object", "additionalProperties": {"type": "boolean"}}


def named(names: str) -> dict[str, bool]:
    return dict.fromkeys(names, True)


Row = tuple[dict[str, Any], list[Any], list[Any]]
INTEGERS: list[Row] = [
    ({"type": "integer", **LISTED}, [ID, ID + 1], [ID - 1, ID + 2]),
    (LISTED, [ID, ID + 1], [ID - 1, ID + 2]),
    ({"const": -(2**63)}, [-(2**63)], [-(2**63) + 1]),
    ({"const": 10**30 + 1}, [10**30 + 1], [10**30, 10**30 + 2]),
    (RANGE, [2**53 + 1, 2**53 + 7], [2**53, 2**53 + 8]),
    ({"type": "integer", "minimum": 0, "maximum": MAX}, [0, 10, MAX], [-1, MAX + 1, 10**19]),
    ({"type": "integer", "minimum": -MAX - 1}, [-MAX - 1, 0, 10**20], [-MAX - 2, -(10**20)]),
    ({"type": "integer", "exclusiveMaximum": 2**64, "minimum": 7}, [7, 2**64 - 1], [6, 2**64]),
    ({"type": "integer", "minimum": 10**30 + 5}, [10**30 + 5, 10**31], [10**30 + 4, 5]),
]
COUNTS: list[Row] = [
    (ABC | {"minProperties": 1}, [named("c"), named("ab")], [{}]),
    (ABC | {"minProperties": 2}, [named("ac"), named("abc")], [{}, named("a")]),
    (
        ABC | {"minProperties": 2, "maxProperties": 2, "required": ["b"]},
        [named("ab"), named("bc")],
        [named("b"), named("ac"), named("abc")],
    ),
    (ABC | {"maxProperties": 1}, [{}, named("b")], [named("ab")]),
    (MAP | {"minProperties": 1, "maxProperties": 2}, [named("x"), named("xy")], [{}, named("xyz")]),
    (
        {"type": "object", "additionalProperties": ABC, "maxProperties": 1},
        [{}, {"x": named("ab")}],
        [{"x": {}, "y": {}}],
    ),
]


@lru_cache
def model(dialect: str, name: str = "f") -> CodecModel:
    return CodecModel(DIALECTS[dialect], mark_texts(DIALECTS[dialect]), name)


def parameters(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*required]}


@pytest.mark.parametrize("is_content", [False, True], ids=["call", "content"])
@pytest.mark.parametrize("more", [{}, {"text": TEXT}], ids=["alone", "beside"])
@pytest.mark.parametrize(("given", "valid", "invalid"), [*INTEGERS, *COUNTS])
def test_masks_of_json_allow_exactly_the_values_of_the_schema(
    given: dict[str, Any], valid: list[Any], invalid: list[Any], more: Any, is_content: bool
) -> None:
    found = model("qwen3", grammar_key.CONTENT if is_content else "f")
    listed = {"type": "array", "items": given, "maxItems": 1}
    verdict, grammar = found.verdict(parameters("v", "l", v=given, l=listed, **more))
    assert grammar is not None
    assert not verdict.residual
    for value in (*valid, *invalid):
        for arguments in ({"v": value, "l": []}, {"v": valid[0], "l": [value]}):
            assert found.accepts(grammar, json.dumps(arguments)) == (value in valid)


@pytest.mark.exhaustive
@pytest.mark.parametrize("dialect", ["glm47", "deepseek_v32", "gemma4", "lfm2_5", "minimax_m3"])
@pytest.mark.parametrize(
    "schema",
    [
        *(parameters("v", v=given, text=TEXT, n={"type": "null"}) for given, _, _ in INTEGERS),
        *(given for given, _, _ in COUNTS[:4]),
    ],
)
def test_calls_have_exactly_the_values_of_the_schema(schema: dict[str, Any], dialect: str) -> None:
    found = model(dialect)
    verdict, grammar = found.verdict(schema)
    assert grammar is not None
    assert not verdict.residual
    texts = [found.walk(grammar, seed) for seed in range(4)]
    values = [json.loads(found.parsed(schema, each)) for each in texts if each is not None]
    assert values
    assert all(jsonschema_rs.is_valid(schema, value) for value in values)
