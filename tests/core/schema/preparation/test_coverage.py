"""Every keyword at its place, and who holds it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.schemas.support_counts import coverage
from toolgate_core.schema.keywords import ASSERTIONS
from toolgate_core.schema.preparation.advice import ADVICE, advice_on
from toolgate_core.schema.preparation.prepare import prepare
from toolgate_core.schema.preparation.relaxation import HARD, TOGETHER

SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": "a title",
    "properties": {
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "uniqueItems": True},
        "not": {"type": "string", "format": "made-up"},
        "one": {"oneOf": [{"minimum": 0}, {"type": "integer", "maximum": 9}]},
        "when": {"if": {"items": {"const": 1}}, "then": {"minItems": 1}},
    },
    "$defs": {"tag": {"type": "string"}, "unused": {"uniqueItems": True}},
}


def test_coverage_states_what_enforces_each_keyword() -> None:
    by = {each.pointer: each.enforced_by for each in coverage(SCHEMA, prepare(SCHEMA))}
    assert by == {
        "/type": "masks",
        "/title": "nothing",
        "/properties": "masks",
        "/properties/tags/type": "masks",
        "/properties/tags/items": "masks",
        "/properties/tags/items/$ref": "masks",
        "/properties/tags/uniqueItems": "validation",
        "/properties/not/type": "masks",
        "/properties/not/format": "nothing",
        "/properties/one/oneOf": "validation",
        "/properties/one/oneOf/0/minimum": "masks",
        "/properties/one/oneOf/1/type": "masks",
        "/properties/one/oneOf/1/maximum": "masks",
        "/properties/when/if": "validation",
        "/properties/when/if/items": "validation",
        "/properties/when/if/items/const": "validation",
        "/properties/when/then": "validation",
        "/properties/when/then/minItems": "validation",
        "/$defs/tag/type": "masks",
        "/$defs/unused/uniqueItems": "nothing",
    }


def test_residual_keywords_have_a_reason_and_a_rewrite() -> None:
    residual = prepare(SCHEMA).residual
    assert [place.keyword for place in residual] == ["uniqueItems", "oneOf", "if", "then"]
    assert all(all(advice_on(SCHEMA, each.pointer, each.keyword)) for each in residual)


@pytest.mark.parametrize("keyword", sorted(HARD | {k for ks in TOGETHER.values() for k in ks}))
def test_every_possibly_residual_keyword_has_advice(keyword: str) -> None:
    assert keyword in ADVICE
    assert keyword in ASSERTIONS
