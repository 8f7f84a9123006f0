"""Integers of any size are exact in masks, in every form of calls, and by both engines."""

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
VALUES: list[tuple[dict[str, Any], list[int], list[int]]] = [
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
BESIDE = {"properties": {"text": {"type": "string", "maxLength": 2}, "n": {"type": "null"}}}
"""Further members for which llguidance compiles the schema."""


@lru_cache
def model(dialect: str, name: str = "f") -> CodecModel:
    return CodecModel(DIALECTS[dialect], mark_texts(DIALECTS[dialect]), name)


def schema_of(given: dict[str, Any], **more: Any) -> dict[str, Any]:
    listed = {"type": "array", "items": given, "maxItems": 1}
    properties = {"id": given, "ids": listed, **more.get("properties", {})}
    return {"type": "object", "properties": properties, "required": ["id", "ids"]}


@pytest.mark.parametrize("name", ["f", grammar_key.CONTENT])
@pytest.mark.parametrize("more", [{}, BESIDE], ids=["alone", "beside"])
@pytest.mark.parametrize(("given", "valid", "invalid"), VALUES)
def test_masks_of_json_allow_exactly_the_integers_of_the_schema(
    given: dict[str, Any], valid: list[int], invalid: list[int], more: dict[str, Any], name: str
) -> None:
    found = model("qwen3", name)
    verdict, grammar = found.verdict(schema_of(given, **more))
    assert grammar is not None
    assert not verdict.residual
    for number in (*valid, *invalid):
        for arguments in ({"id": number, "ids": []}, {"id": valid[0], "ids": [number]}):
            assert found.accepts(grammar, json.dumps(arguments)) == (number in valid)


@pytest.mark.exhaustive
@pytest.mark.parametrize("dialect", ["glm47", "deepseek_v32", "gemma4", "lfm2_5", "minimax_m3"])
@pytest.mark.parametrize("given", [given for given, _, _ in VALUES])
def test_calls_have_exactly_the_integers_of_the_schema(given: dict[str, Any], dialect: str) -> None:
    schema = {"type": "object", "properties": {"id": given}, "required": ["id"]} | BESIDE
    schema["properties"] = {"id": given, **BESIDE["properties"]}
    found = model(dialect)
    verdict, grammar = found.verdict(schema)
    assert grammar is not None
    assert not verdict.residual
    for seed in range(3):
        written = found.walk(grammar, seed)
        value = None if written is None else json.loads(found.parsed(schema, written))
        assert value is None or jsonschema_rs.is_valid(schema, value)
