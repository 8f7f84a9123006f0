"""Hints of a schema for the search for short completions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests import tools
from tests.support.dialects.model import DialectModel
from toolgate_backend.grammars.compiled_grammar import MeasuredGrammar
from toolgate_backend.grammars.completions.hints import hints_of
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.tools import Tool, parse_tools
from toolgate_core.wire import NO_HINTS

STRING = {"type": "string"}
OPEN = {
    "type": "object",
    "properties": {"title": STRING, "tags": {"type": "array", "items": STRING}, "at": STRING},
    "required": ["title", "at"],
    "additionalProperties": True,
}
PATTERNS = {
    "address": r"^\S+@\S+$",
    "part": "INTERVAL_TICK|INTERVAL_M1",
    "parts": r"^pbj:([a-z0-9-]+):([a-z0-9\.-]+):([a-z0-9-]+)?:([0-9]+-[0-9]+)$",
}
"""Greedy searches write these without an end."""
HARD = [
    tools.tool("undeclared", {"note": OPEN}, ["note"]),
    tools.tool("bounded", {"x": {"type": "number", "minimum": -90.5}, "y": STRING}, ["x", "y"]),
    *(
        tools.tool(name, {"text": {"type": "string", "pattern": pattern}}, ["text"])
        for name, pattern in PATTERNS.items()
    ),
]


@pytest.mark.parametrize("definition", HARD, ids=lambda tool: tool["function"]["name"])
def test_a_short_completion_is_found_where_masks_do_not_lead_to_one(
    compile_tool: Callable[[Tool], MeasuredGrammar], definition: dict[str, Any]
) -> None:
    [tool] = parse_tools([definition])
    least = compile_tool(tool).least_tokens
    assert least is not None
    assert least < 60


@pytest.mark.parametrize("name", ["qwen3_coder", "gemma4", "llama4_pythonic", "minimax_m3"])
def test_a_short_completion_is_found_in_each_codec(name: str) -> None:
    model = DialectModel(DIALECTS[name])
    for tool in HARD[1:]:
        function = tool["function"]
        grammar = model.grammar(function["name"], function["parameters"])
        assert grammar.least_tokens is not None, function["name"]


@pytest.mark.parametrize(
    ("pattern", "least", "length"),
    [
        (PATTERNS["address"], 0, 3),
        (PATTERNS["part"], 0, 11),
        (PATTERNS["parts"], 0, 12),
        ("a{3}b?", 0, 3),
        ("[^a-z]", 0, 1),
        (r"\d{4}-\d\d", 0, 7),
        ("long|it|a word", 0, 2),
        (r"^(?=.*[A-Z])(?=.*\d).{8,}$", 0, 8),
        (r"^a+\.(?:json|md)$", 9, 9),
        ("a.{40}b", 0, 42),
    ],
)
def test_a_text_of_a_pattern_is_one_of_the_shortest(pattern: str, least: int, length: int) -> None:
    [hints] = hints_of({"type": "string", "pattern": pattern, "minLength": least})
    [text] = hints.texts
    assert len(text) == length
    assert re.search(pattern, text)


@pytest.mark.parametrize(
    "pattern", ["(", "a{100000}", "[z-a]", "^a(?=b)$", r"\bword\b", "(?:a(?=b)b)+"]
)
def test_patterns_without_a_short_text_and_those_of_no_mask_have_no_hint(pattern: str) -> None:
    assert hints_of({"type": "string", "pattern": pattern}) == [NO_HINTS]


def test_hints_are_required_names_and_short_strings() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "pattern": "^b+$", "minLength": 3}, "c": STRING},
        "required": ["a"],
        "dependentRequired": {"a": ["c"]},
    }
    [found] = hints_of(schema)
    assert found.names == ("a", "c")  # only the other one requires c
    assert "bbb" in found.texts


def test_what_belongs_to_the_shortest_alternative_comes_first() -> None:
    def branch(kind: str, *names: str) -> dict[str, Any]:
        properties = {"kind": {"const": kind}} | dict.fromkeys(names, STRING)
        return {"type": "object", "properties": properties, "required": [*properties]}

    vault, chain = branch("aws", "id", "region", "secret"), branch("keychain", "id")
    schema = branch("x", "id", "region") | {"$defs": {"y": {"required": ["unused"]}}}
    schema["properties"]["vault"] = {"oneOf": [vault, {"$ref": "#/$defs/chain"}]}
    schema["$defs"]["chain"] = chain
    first, second = hints_of(schema)
    assert {*first.names[:3]} == {"id", "kind", "region"}
    assert {*second.names[:2]} == {"id", "kind"}
    assert {*second.names[2:4]} == {"region", "secret"}
    assert first.names[-1] == second.names[-1] == "unused"
    assert first.texts == second.texts == ("x", "keychain", "aws")


def test_a_value_of_an_enum_has_the_fewest_tokens() -> None:
    schema = {"enum": ["\u6c64", "soup", "a main dish"]}
    tokens = {"\u6c64": 3, "soup": 1, "a main dish": 5}
    [hints] = hints_of(schema, tokens.__getitem__)
    assert hints.texts == ("soup",)
