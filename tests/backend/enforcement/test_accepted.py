"""Sequences that continue from tokens of an earlier response."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests import tools
from tests.support.dialects.model import DialectModel
from tests.support.dialects.model import walk as family_walk
from tests.support.dialects.tool_calls import calls_in
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.spec import Spec
from toolgate_backend.errors import BackendError
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.dialects.usual_marks import marks_of

from .test_automaton import MakeAutomaton, allowed, walk


def test_a_sequence_resumes_from_accepted_tokens(
    automaton: MakeAutomaton, vocabulary: Vocabulary
) -> None:
    """Masks equal those after sampling the tokens, for any prefix and after a reset."""
    tokens, _ = walk(automaton(tools.ALL, choice="auto", reasoning="may"), vocabulary, seed=3)
    machine = automaton(tools.ALL, choice="auto", reasoning="may")
    for at, token in enumerate(tokens[:120]):
        if at % 9 == 0:
            accepted = tuple(tokens[:at])
            heir = automaton(tools.ALL, choice="auto", reasoning="may", accepted=accepted)
            for _ in range(2):
                assert np.array_equal(
                    allowed(heir, vocabulary.size), allowed(machine, vocabulary.size)
                )
                assert heir.accept_tokens(tokens[at : at + 5])
                heir.reset()
        assert machine.accept_tokens([token])


def test_excluded_tokens_do_not_follow_the_accepted_ones(
    automaton: MakeAutomaton, vocabulary: Vocabulary
) -> None:
    """Unless no other token is allowed there, and only at that place."""
    how: dict[str, Any] = {"choice": "required", "reasoning": "must"}
    tokens, _ = walk(automaton(tools.ALL, **how), vocabulary, seed=3)
    machine = automaton(tools.ALL, **how)
    alone = 0
    for at, token in enumerate(tokens[:120]):
        heir = automaton(tools.ALL, **how, accepted=tuple(tokens[:at]), excluded=(token,))
        before = allowed(machine, vocabulary.size)
        others = before[before != token]
        for _ in range(2):
            mask = allowed(heir, vocabulary.size)
            if others.size:
                assert np.array_equal(mask, others)
                assert not heir.accept_tokens([token])
                assert heir.validate_tokens([token]) == []
                assert heir.accept_tokens([int(others[0])])
                heir.rollback(1)
                assert np.array_equal(allowed(heir, vocabulary.size), others)
            else:
                alone += 1
                assert np.array_equal(mask, before)
                assert heir.accept_tokens([token])
                heir.rollback(1)
            heir.reset()
        assert machine.accept_tokens([token])
    assert alone


def test_accepted_tokens_may_exceed_the_remaining_budget(
    automaton: MakeAutomaton, vocabulary: Vocabulary
) -> None:
    how: dict[str, Any] = {"choice": "required", "reasoning": "must", "close_at_budget": True}
    tokens, _ = walk(automaton(tools.ALL, **how, budget=300), vocabulary, seed=4)
    for at in range(0, len(tokens) - 1, 11):
        heir = automaton(tools.ALL, **how, accepted=tuple(tokens[:at]), budget=at + 2)
        assert len(allowed(heir, vocabulary.size))


def test_accepted_tokens_that_violate_the_masks_are_rejected(
    automaton: MakeAutomaton, vocabulary: Vocabulary
) -> None:
    with pytest.raises(BackendError):
        automaton([tools.WEATHER], choice="required", accepted=tuple(vocabulary.encode("Hello")))


PARALLEL = ("qwen3", "qwen3_coder", "apertus", "deepseek_v31", "lfm2_5")
"""Families with calls in a list or one after the other, and different forms of arguments."""


@pytest.mark.parametrize(
    ("family", "special"), [*product(PARALLEL, [True]), ("qwen3", False), ("apertus", False)]
)
def test_a_call_after_accepted_ones_may_have_another_grammar(family: str, special: bool) -> None:
    """Also if the text before its name has been accepted, and after a reset."""
    dialect = DIALECTS[family]
    earlier, later = (tools.tool("f", {"n": {"enum": values}}) for values in ([1, 2, 3], [7]))
    model = DialectModel(dialect, marks_of(dialect) if special else (), [earlier])
    [before], after = model.tools(), model.grammar("f", later["function"]["parameters"])
    spec = Spec("required", earlier_calls=5, id_seed="seed")
    tokens, ends = _two_calls(model, spec)
    others: list[int] = []
    for at in range(ends[0], ends[0] + 4):
        accepted = replace(spec, accepted=tuple(tokens[:at]))
        machine = Automaton(model.static, accepted, [after], None, [before])
        for seed in range(2):
            machine.reset()
            written, _, whole = family_walk(machine, model, seed)
            events = model.segment([*tokens[:at], *written], reason="stop" if whole else "length")
            calls = calls_in(events)
            values = [json.loads(text)["n"] for _, text in (calls if whole else calls[:-1])]
            assert values[0] in (1, 2, 3)
            others += values[1:]
    assert set(others) == {7}


def _two_calls(model: DialectModel, spec: Spec) -> tuple[list[int], list[int]]:
    """The tokens of a response with two calls, and the number of tokens at the end of each."""
    for seed in range(200):
        machine = Automaton(model.static, spec, model.tools())
        tokens, _, whole = family_walk(machine, model, seed)
        machine.reset()
        ends: list[int] = []
        for at, token in enumerate(tokens, start=1):
            machine.accept_tokens([token])
            ends += [at] * (machine.state.calls > len(ends))
        if whole and len(ends) > 1:
            return tokens, ends
    raise AssertionError("no walk had two calls")
