"""A schema that no value satisfies is refused in every form of calls, with the cause's place."""

from __future__ import annotations

from typing import Any

import pytest

from toolgate_backend.grammars.compiler import Compiler
from toolgate_backend.grammars.offline import compiler_of
from toolgate_core.schema.canonical import canonical_json, canonical_parameters
from toolgate_core.wire import GrammarVerdict

UNSATISFIABLE: list[Any] = [
    False,
    {"type": "string", "minLength": 5, "maxLength": 2},
    {"type": "string", "enum": [1]},
    {"type": "integer", "multipleOf": 10, "minimum": 11, "exclusiveMaximum": 20},
    {"type": "number", "minimum": 5, "maximum": 3},
    {"type": "array", "minItems": 3, "maxItems": 1},
    {"allOf": [{"type": "string"}, {"type": "integer"}]},
]
WITHOUT_TEXT: list[Any] = [
    {"type": "string", "pattern": "^a{5}$", "maxLength": 3},
    {"type": "string", "pattern": "^[a-z]{2}$", "minLength": 3},
    {"type": "string", "pattern": "^(?=a)b"},
]
DIALECTS = ["qwen3", "glm47", "qwen3_coder", "gemma4", "lfm2_5"]


def verdict(compiler: Compiler, given: Any, *required: str) -> GrammarVerdict:
    properties = {"a": given, "b": {"type": "null"}}
    schema = {"type": "object", "properties": properties, "required": [*required]}
    text = canonical_json(canonical_parameters(schema))
    return compiler.compile("k", "f", text).verdict


@pytest.mark.parametrize("given", UNSATISFIABLE)
def test_keywords_that_contradict_each_other_are_refused_with_their_place(
    compiler: Compiler, given: Any
) -> None:
    for each in (compiler, *map(compiler_of, DIALECTS)):
        found = verdict(each, given, "a")
        assert (found.status, found.code) == ("refused", "schema_not_enforceable")
        assert found.pointer is not None
        assert found.pointer.startswith("/properties/a")
        assert verdict(each, given).status == "ready"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("given", WITHOUT_TEXT)
def test_a_string_without_a_text_is_refused_where_it_is_required(dialect: str, given: Any) -> None:
    found = verdict(compiler_of(dialect), given, "a")
    assert (found.status, found.code) == ("refused", "schema_not_enforceable")
    if dialect != "lfm2_5":
        assert verdict(compiler_of(dialect), given).status == "ready"
