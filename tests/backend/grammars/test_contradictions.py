"""The verdict on a schema that no value satisfies names the keywords because of which."""

from __future__ import annotations

from typing import Any

import pytest

from toolgate_backend.grammars.compiler import Compiler
from toolgate_backend.grammars.offline import compiler_of
from toolgate_core.schema.canonical import canonical_json, canonical_parameters


@pytest.mark.parametrize(
    ("given", "pointer", "named"),
    [
        ({"type": "string", "minLength": 5, "maxLength": 2}, "maxLength", ["minLength"]),
        ({"type": "string", "pattern": "^a{5}$", "maxLength": 3}, "maxLength", ["pattern"]),
        ({"type": "string", "pattern": "^[a-z]{2}$", "minLength": 3}, "minLength", ["pattern"]),
        (
            {"type": "integer", "multipleOf": 10, "minimum": 11, "exclusiveMaximum": 20},
            "exclusiveMaximum",
            ["minimum", "multipleOf"],
        ),
    ],
)
def test_a_contradiction_is_named(
    compiler: Compiler, given: dict[str, Any], pointer: str, named: list[str]
) -> None:
    schema = {"type": "object", "properties": {"a": given}, "required": ["a"]}
    text = canonical_json(canonical_parameters(schema))
    verdict = compiler.compile("k:qwen3:t:f", "f", text).verdict
    assert (verdict.status, verdict.code) == ("refused", "schema_not_enforceable")
    assert verdict.pointer == f"/properties/a/{pointer}"
    assert all(f"'{each}'" in (verdict.reason or "") for each in [pointer, *named])


def test_an_optional_property_without_a_value_is_left_out(compiler: Compiler) -> None:
    nothing = {"type": "string", "pattern": "^a{5}$", "maxLength": 3}
    schema = {"type": "object", "properties": {"a": nothing, "b": {"type": "null"}}}
    text = canonical_json(canonical_parameters(schema))
    assert compiler.compile("k:qwen3:t:f", "f", text).verdict.status == "ready"


@pytest.mark.parametrize("dialect", ["qwen3", "glm47", "gemma4", "lfm2_5"])
@pytest.mark.parametrize(
    "given",
    [
        {"type": "string", "pattern": "/^[a-z]{2}$/i"},
        {"type": ["string", "null"], "pattern": "a^"},
        {"type": "string", "pattern": "^(?=a)b"},
    ],
)
def test_a_pattern_that_matches_nothing_is_refused_in_every_form(
    dialect: str, given: dict[str, Any]
) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": given}}}
    text = canonical_json(canonical_parameters(schema))
    verdict = compiler_of(dialect).compile("k", "f", text).verdict
    assert (verdict.status, verdict.pointer) == ("refused", "/properties/a/items/pattern")
