"""Random walks over calls of custom tools: independent parsers accept every input."""

from __future__ import annotations

import pytest

from tests.support.dialects.model import DialectModel
from tests.support.effort import repeats, sampled
from tests.support.grammars.custom_grammars import CASES
from tests.support.grammars.custom_walks import CustomWalks
from toolgate_core.custom_tools import Grammar
from toolgate_core.dialects.mark_texts import mark_texts
from toolgate_core.dialects.registry import DIALECTS
from toolgate_proxy.validation.grammar_reader import read_grammar

SEEDS = repeats(1, nightly=100)
MARKS_ARE_TOKENS = {
    "qwen3": True,
    "qwen3_coder": False,
    "gemma4": True,
    "llama4_pythonic": False,
}


@pytest.mark.exhaustive
@sampled("name, dialect", [case.name for case in CASES], MARKS_ARE_TOKENS, one_in=4)
def test_every_input_matches_its_grammar(name: str, dialect: str) -> None:
    case = next(case for case in CASES if case.name == name)
    tokens = mark_texts(DIALECTS[dialect]) if MARKS_ARE_TOKENS[dialect] else ()
    walks = CustomWalks(DialectModel(DIALECTS[dialect], tokens, [case.tool]), case)
    matches = None
    if case.syntax != "text":
        matches = read_grammar(Grammar(case.syntax, case.definition))  # type: ignore[arg-type]
    ended = 0
    for seed in range(3 * SEEDS):
        inputs = walks.inputs(seed)
        for text in inputs or ():
            assert case.accepts(text), text
            assert matches is None or matches(text), text
        ended += inputs is not None
        if ended == SEEDS:
            return
    assert ended
