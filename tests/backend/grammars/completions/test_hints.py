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
from toolgate_backend.grammars.completions.shortest_match import shortest_match
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.tools import Tool, parse_tools

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
    "pattern",
    [*PATTERNS.values(), "a{3}b?", "[^a-z]", r"(x|yy)\1", r"\d{4}-\d\d", "(?:a(?=b)b)+", r"\W"],
)
def test_a_short_match_matches(pattern: str) -> None:
    text = shortest_match(pattern)
    assert text is not None
    assert re.search(pattern, text)


@pytest.mark.parametrize("pattern", ["(", "a{100000}", "[z-a]"])
def test_patterns_without_a_short_match(pattern: str) -> None:
    assert shortest_match(pattern) is None


def test_hints_are_required_names_and_short_strings() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "pattern": "^b+$", "minLength": 3}, "c": STRING},
        "required": ["a"],
        "dependentRequired": {"a": ["c"]},
    }
    found = hints_of(schema)
    assert found.names == ("a", "c")  # only the other one requires c
    assert "bbb" in found.texts
