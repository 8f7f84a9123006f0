"""Masks and steps of token graphs are those of the engine's own matchers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.backend.grammars.graph.models import CODECS, SCHEMAS, grammar, model, parameters
from tests.support.dialects.model import DialectModel
from tests.support.effort import repeats
from tests.support.grammars.custom_grammars import CASES
from tests.support.grammars.graph_walks import Pair, graphs_of, walk
from toolgate_backend.grammars.compiled_grammar import MeasuredGrammar
from toolgate_backend.grammars.graph.free_strings import FreeTexts
from toolgate_backend.grammars.graph.text_kinds import JSON_IN_LLGUIDANCE
from toolgate_backend.grammars.graph.token_graphs import TokenGraphs
from toolgate_core.custom_tools import Grammar, custom_parameters
from toolgate_core.grammar_key import CONTENT
from toolgate_core.schema.canonical import TEXT

NEAR_ENDS = [
    *('"', "\\", "\\u00", "\\u0041", "\\u001f", "'", "<", "</", "\n</", "\n\n", "</parameter"),
    *("</arg_value>", "\n</parameter>", "</parameter>\n", "</parameter>x", "]<]minimax", "<|"),
    *('<|"', "\n", "12", "3.5e", "é", "日本", "[[", "{", '", "', "]", "}", "x'", "\x7f"),
]
"""Texts in which strings and values may end, or look as if."""


def compare(
    found: DialectModel, graphs: TokenGraphs, grammar: MeasuredGrammar, seeds: range
) -> int:
    head = found.data.token_index.cover(grammar.fixed_prefix) or []
    index = found.data.token_index
    injected = [tokens for each in NEAR_ENDS if (tokens := index.cover(each.encode()))]
    compared = 0
    for seed in seeds:
        pair = Pair(found, graphs.graph_of(grammar), grammar)
        assert all(map(pair.accept, head))
        compared += walk(pair, found, seed, injected=injected)
    return compared


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("dialect", CODECS)
def test_masks_are_those_of_the_engine(dialect: str, schema: str) -> None:
    found = model(dialect)
    for wide in (300, 4096):
        graphs = graphs_of(found, wide=wide)
        compare(found, graphs, grammar(dialect, schema), range(repeats(3, nightly=200)))


@pytest.mark.parametrize("dialect", ["qwen3", "qwen3_coder", "gemma4"])
def test_masks_stay_right_when_graphs_begin_anew(dialect: str) -> None:
    found = model(dialect)
    # Rows that other tests have made are not counted again.
    graphs = graphs_of(found, max_bytes=15_000)
    for schema in ("free", "list", "pattern"):
        assert compare(found, graphs, grammar(dialect, schema), range(repeats(4, nightly=200)))
    assert graphs.memory.generation > 3


@pytest.mark.parametrize("dialect", ["qwen3", "qwen3_coder", "gemma4", "llama32_pythonic"])
@pytest.mark.parametrize("name", ["patch", "sql"])
def test_masks_of_custom_tools_are_those_of_the_engine(dialect: str, name: str) -> None:
    found, case = model(dialect), next(case for case in CASES if case.name == name)
    made = found.grammar("f", custom_parameters(Grammar("lark", case.definition)))
    assert compare(found, graphs_of(found, wide=300), made, range(repeats(2, nightly=100)))


@pytest.mark.parametrize(
    "form", [{"choice": ["yes", "yes, sir", "no"]}, {"regex": "[a-z ]+(,[0-9]{2,3})*"}]
)
def test_masks_of_text_formats_are_those_of_the_engine(form: dict[str, Any]) -> None:
    found = model("qwen3")
    made = found.grammar(CONTENT, {TEXT: form})
    assert compare(found, graphs_of(found), made, range(repeats(4, nightly=100)))


@pytest.mark.parametrize("dialect", ["qwen3_coder", "gpt_oss"])
def test_masks_of_formats_are_those_of_the_engine(dialect: str) -> None:
    found = model(dialect)
    for schema in ({"type": "object"}, SCHEMAS["free"], SCHEMAS["numbers"]):
        made = found.grammar(CONTENT, schema)
        assert compare(found, graphs_of(found), made, range(repeats(3, nightly=100)))


@pytest.mark.parametrize("form", [{"maxLength": 40}, {"maxLength": 100}])
def test_a_loop_without_a_proof_would_be_found(form: dict[str, Any]) -> None:
    found = model("qwen3")
    made = found.grammar("f", parameters(a={"type": "string", **form}))
    assert not made.compiled.free.strings
    made.compiled.free = FreeTexts((JSON_IN_LLGUIDANCE,))  # type: ignore[misc]
    with pytest.raises(AssertionError):
        compare(found, graphs_of(found), made, range(40))
