"""The way to end a call: it must be one, from anywhere in a call, and a short one."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import jsonschema
import numpy as np
import pytest

from tests import tools
from toolgate_backend.enforcement.model_data import ModelData
from toolgate_backend.grammars.compiled_grammar import MeasuredGrammar, growth
from toolgate_backend.grammars.completions.json_texts import Scan
from toolgate_backend.tokens import masks
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core.tools import Tool, parse_tools

HARD = [
    *tools.ALL,
    tools.tool("choose", {"of": {"type": "string", "enum": ["Zürich", "a", "abcdefgh"]}}),
    tools.tool("long", {"text": {"type": "string", "minLength": 40}}),
    tools.tool("pattern", {"code": {"type": "string", "pattern": "^(a|b)*c$"}}),
    tools.tool("number", {"x": {"type": "number"}, "y": {"type": "integer", "minimum": 1000}}),
    tools.tool(
        "nested",
        {"of": {"type": "array", "minItems": 2, "items": tools.RANGE["function"]["parameters"]}},
    ),
]


def arguments(vocabulary: Vocabulary, tokens: list[int]) -> Any:
    text = b"".join(vocabulary.token_bytes[i] for i in tokens).decode()
    return json.loads(text)["arguments"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("definition", HARD, ids=lambda t: t["function"]["name"])
def test_completion_from_any_position_is_valid(
    compile_tool: Callable[[Tool], MeasuredGrammar],
    model_data: ModelData,
    vocabulary: Vocabulary,
    definition: dict[str, Any],
) -> None:
    [tool] = parse_tools([definition])
    grammar = compile_tool(tool)
    rng = random.Random(7)
    matcher, taken, scan = grammar.matcher(), [], Scan()
    while not matcher.finished and len(taken) < 120:
        path = model_data.completion.path(matcher, scan, grammar.hints)
        assert path is not None
        jsonschema.validate(arguments(vocabulary, [*taken, *path]), tool.parameters)
        if not taken:
            assert grammar.least_tokens == len(path) < 120
        row = np.empty((vocabulary.size + 31) // 32, dtype=np.int32)
        matcher.fill(row)
        choices = [int(i) for i in masks.unpack(row) if i not in vocabulary.special]
        token = rng.choice(choices)
        assert matcher.accept(token)
        taken.append(token)
        scan = scan.after(vocabulary.token_bytes[token])
        after = model_data.completion.path(matcher, scan, grammar.hints)
        assert after is not None
        assert len(after) - len(path) <= grammar.growth
        again = model_data.completion.path(matcher, scan, grammar.hints, tuple(path))
        assert again is not None
        assert len(again) - len(path) <= grammar.growth
        jsonschema.validate(arguments(vocabulary, [*taken, *again]), tool.parameters)


def test_completion_spells_special_token_text_in_ordinary_tokens(
    compile_tool: Callable[[Tool], MeasuredGrammar],
    model_data: ModelData,
    vocabulary: Vocabulary,
) -> None:
    """llguidance's mask allows only the special token where its text is forced."""
    short = {"type": "string", "maxLength": 5}
    [tool] = parse_tools([tools.tool("note", {"a": short, "<think>": short})])
    path = model_data.completion.path(compile_tool(tool).matcher())
    assert path is not None
    assert not vocabulary.special.intersection(path)
    jsonschema.validate(arguments(vocabulary, path), tool.parameters)


def test_scan_tracks_strings_and_escapes() -> None:
    assert Scan().after(b'{"a').in_string
    assert not Scan().after(b'{"a\\""').in_string
    assert Scan().after(b'{"a\\').escaped
    assert Scan().after(b'{"a\\').after(b'"').in_string
    assert Scan(in_string=True, escaped=True).after(b"n") == Scan(in_string=True)


MANY_LISTS = {"type": "array", "minItems": 20, "items": {"type": "integer"}}
ADDRESS = {"type": "string", "pattern": r"^\S+@\S+$"}  # written as several tokens in one step


@pytest.mark.parametrize(("count", "item"), [(60, MANY_LISTS), (300, ADDRESS)])
def test_measuring_reports_no_completion_within_the_limit(
    compile_tool: Callable[[Tool], MeasuredGrammar], count: int, item: dict[str, Any]
) -> None:
    many = {"type": "array", "minItems": count, "items": item}
    [tool] = parse_tools([tools.tool("many", {"x": many})])
    assert compile_tool(tool).least_tokens is None


def test_a_search_without_a_way_to_the_end_is_given_up(
    compile_tool: Callable[[Tool], MeasuredGrammar],
    model_data: ModelData,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No hint of the schema leads to a text that both parts of the pattern match."""
    text = {"type": "string", "pattern": "^(?=.*7a7$)(x[0-9]){9,}.*$"}
    [tool] = parse_tools([tools.tool("texts", {"of": text}, ["of"])])
    matcher = compile_tool(tool).matcher()
    fill, filled = type(matcher).fill, list[int]()

    def counted(self: Any, row: masks.BitmaskRow) -> None:
        filled.append(1)
        fill(self, row)

    monkeypatch.setattr(type(matcher), "fill", counted)
    assert model_data.completion.path(matcher) is None
    assert len(filled) < 500


def test_growth_measures_each_reference_once() -> None:
    """Visiting every path of this schema would take 3 to the power of its depth."""
    again = [{"$ref": "#/$defs/a"}] * 3
    node = {"type": "object", "properties": {"x": {"anyOf": [*again, {"type": "null"}]}}}
    links = {f"l{at}": {"anyOf": [{"$ref": f"#/$defs/l{at + 1}"}] * 3} for at in range(60)}
    parameters = {"$defs": {"a": node, **links, "l60": {"type": "null"}}, "$ref": "#/$defs/l0"}
    assert growth(parameters) < 200
