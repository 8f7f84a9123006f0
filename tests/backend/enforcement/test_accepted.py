"""Sequences that continue from tokens of an earlier response."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests import tools
from toolgate_backend.errors import BackendError
from toolgate_backend.grammars.compiled_grammar import MeasuredGrammar
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core.tools import Tool, parse_tools

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
    how: dict[str, Any] = {"choice": "required", "reasoning": "must"}
    tokens, _ = walk(automaton(tools.ALL, **how, budget=300), vocabulary, seed=4)
    for at in range(0, len(tokens) - 1, 11):
        heir = automaton(tools.ALL, **how, accepted=tuple(tokens[:at]), budget=at + 2)
        assert len(allowed(heir, vocabulary.size))


def test_accepted_tokens_that_violate_the_masks_are_rejected(
    automaton: MakeAutomaton, vocabulary: Vocabulary
) -> None:
    with pytest.raises(BackendError):
        automaton([tools.WEATHER], choice="required", accepted=tuple(vocabulary.encode("Hello")))


def test_the_rest_of_the_budget_decides_which_calls_follow_accepted_ones(
    automaton: MakeAutomaton,
    vocabulary: Vocabulary,
    compile_tool: Callable[[Tool], MeasuredGrammar],
) -> None:
    """As if the accepted tokens had been sampled under it, also inside the next call's beginning.
    If no call fits any more, one that has begun goes on."""
    marks, call = vocabulary.marks, '\n{"name": "get_weather", "arguments": {"city": ""}}\n'
    begin, end = marks.tokens["<tool_call>"], marks.tokens["</tool_call>"]
    first = (begin, *vocabulary.encode(call), end)
    further = (*vocabulary.encode("\n"), begin, *vocabulary.encode('\n{"name": "'))
    sizes = sorted(compile_tool(tool).least_tokens or 0 for tool in parse_tools(tools.ALL))
    names: set[bytes] = set()
    for size in (sizes[0] - 1, *sizes):
        # A separator and a mark, and after the body, a mark and the end.
        how: dict[str, Any] = {"choice": "required", "budget": len(first) + 2 + size + 2}
        for count in range(len(further) + 1):
            accepted = (*first, *further[:count])
            heir = automaton(tools.ALL, **how, accepted=accepted)
            mask = allowed(heir, vocabulary.size)
            machine = automaton(tools.ALL, **how)
            assert machine.accept_tokens(first)
            if machine.accept_tokens(further[:count]):
                assert np.array_equal(mask, allowed(machine, vocabulary.size))
            else:
                assert size < sizes[0]
                assert heir.accept_tokens(further[count:])
        names.add(mask.tobytes())
    assert len(names) > 2
