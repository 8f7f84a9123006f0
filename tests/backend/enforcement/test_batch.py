"""Masks of a whole batch are those that each automaton computes alone."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests import tools
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.batch import SINGLE_STEPS, BatchMasks
from toolgate_backend.enforcement.static_masks import StaticMasks
from toolgate_backend.errors import BackendError
from toolgate_backend.grammars.engines.llguidance_matcher import LLGuidanceMatcher
from toolgate_backend.grammars.engines.xgrammar_engine import XGrammarMatcher
from toolgate_backend.tokens import masks
from toolgate_backend.tokens.masks import words_per_row
from toolgate_backend.tokens.vocabulary import Vocabulary

from .test_automaton import MakeAutomaton

LAZY = tools.tool("lazy", {"code": {"type": "string", "pattern": "^(a|b)*c$"}, "n": {}}, ["code"])
"""llguidance compiles it."""


@pytest.fixture
def batch(static_masks: StaticMasks) -> BatchMasks:
    return BatchMasks(static_masks.in_grammars, seconds=60.0)


def rows_for(vocabulary: Vocabulary, count: int) -> masks.BitmaskRows:
    return np.full((count, words_per_row(vocabulary.size)), 5, dtype=np.int32)


def begin_call(automaton: Automaton, vocabulary: Vocabulary, name: str) -> None:
    text = vocabulary.encode(f'\n{{"name": "{name}", "arguments": {{"')
    assert automaton.accept_tokens([vocabulary.marks.tokens["<tool_call>"], *text])


def test_masks_of_a_batch_are_those_of_its_sequences(
    automaton: MakeAutomaton, vocabulary: Vocabulary, batch: BatchMasks
) -> None:
    rng = random.Random(4)
    all_tools = [tools.WEATHER, LAZY, tools.RANGE]
    made = [automaton(all_tools, choice="required", max_calls=1) for _ in range(6)]
    kinds: set[type[Any]] = set()
    together = 0
    for _ in range(60):
        rows = rows_for(vocabulary, len(made) + 1)
        kinds |= {type(each.grammar_matcher) for each in made}
        done = batch.fill(rows, list(enumerate(made)))
        together += len(done)
        assert (rows[-1] == 5).all()
        for at, each in enumerate(made):
            alone = np.empty(words_per_row(vocabulary.size), dtype=np.int32)
            each.fill_bitmask(alone)
            assert at not in done or (rows[at] == alone).all()
            token = int(rng.choice(masks.unpack(alone)))
            assert each.accept_tokens([token])
            if each.is_terminated():
                made[at] = automaton(all_tools, choice="required", max_calls=1)
    assert {XGrammarMatcher, LLGuidanceMatcher} <= kinds
    assert together > 60


def test_a_matcher_that_fails_is_left_to_its_sequence(
    automaton: MakeAutomaton,
    vocabulary: Vocabulary,
    batch: BatchMasks,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = [automaton([tools.WEATHER, LAZY], choice="required") for _ in range(3)]
    for each, name in zip(made, ("get_weather", "lazy", "get_weather"), strict=True):
        begin_call(each, vocabulary, name)

    def exceeded(*_: Any) -> None:
        raise BackendError("a limit was exceeded")

    monkeypatch.setattr(LLGuidanceMatcher, "finish", exceeded)
    assert batch.fill(rows_for(vocabulary, 3), list(enumerate(made))) == {0, 2}


def test_a_slow_batch_is_followed_by_steps_in_which_each_sequence_is_timed(
    automaton: MakeAutomaton, vocabulary: Vocabulary, static_masks: StaticMasks
) -> None:
    batch = BatchMasks(static_masks.in_grammars, seconds=0.0)
    made = [automaton([tools.WEATHER], choice="required") for _ in range(2)]
    for each in made:
        begin_call(each, vocabulary, "get_weather")
    steps = [batch.fill(rows_for(vocabulary, 2), list(enumerate(made))) for _ in range(20)]
    assert steps == [{0, 1}, *[set()] * SINGLE_STEPS, {0, 1}, set(), set()]
