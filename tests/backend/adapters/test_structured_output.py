"""The automaton behind vLLM's own interface for grammars, driven as vLLM's manager drives it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests import tools
from toolgate_backend.adapters.structured_output import EnforcementGrammar, FailedSequence, Shared
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.jump_forward import JumpForward
from toolgate_backend.enforcement.mask_time_budget import MAX_SLOW
from toolgate_backend.enforcement.model_data import ModelData
from toolgate_backend.tokens.masks import unpack
from toolgate_backend.tokens.vocabulary import Vocabulary

MakeAutomaton = Callable[..., Automaton]
Make = Callable[[Automaton], EnforcementGrammar]


@pytest.fixture
def make(model_data: ModelData, vocabulary: Vocabulary) -> Make:
    shared = Shared(FailedSequence(model_data), JumpForward(vocabulary.encode))
    return lambda automaton: EnforcementGrammar(automaton, shared)


def allowed(grammar: EnforcementGrammar, vocabulary: Vocabulary) -> set[int]:
    """By way of one row of a batch's bitmask, whose other rows stay as they are."""
    bitmask = torch.full((3, (vocabulary.size + 31) // 32), 5, dtype=torch.int32)
    grammar.fill_bitmask(bitmask, 1)
    assert (bitmask[[0, 2]] == 5).all()
    return set(unpack(bitmask[1].numpy()).tolist())


@pytest.fixture
def grammar(automaton: MakeAutomaton, make: Make) -> EnforcementGrammar:
    return make(automaton([tools.WEATHER], choice="required"))


def call(vocabulary: Vocabulary) -> list[int]:
    text = '\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n'
    return [
        vocabulary.marks.tokens["<tool_call>"],
        *vocabulary.encode(text),
        vocabulary.marks.tokens["</tool_call>"],
    ]


def test_a_complete_response_terminates_the_grammar(
    grammar: EnforcementGrammar, vocabulary: Vocabulary
) -> None:
    for token in call(vocabulary):
        assert token in allowed(grammar, vocabulary)
        assert grammar.accept_tokens("r", [token])
    end = vocabulary.marks.end_of_turn[0]
    assert end in allowed(grammar, vocabulary)
    assert not grammar.is_terminated()
    assert grammar.accept_tokens("r", [end])
    assert grammar.is_terminated()


def test_drafts_validated_as_in_vllm_do_not_change_the_masks(
    automaton: MakeAutomaton, make: Make, vocabulary: Vocabulary
) -> None:
    """Validate, a mask at each position, roll back; then what was sampled is accepted. Drafts,
    right or wrong, must leave no trace."""
    rng = random.Random(2)
    answer = [*call(vocabulary), *call(vocabulary), vocabulary.marks.end_of_turn[0]]
    separator = vocabulary.encode(vocabulary.form.separator)
    middle = len(call(vocabulary))
    answer[middle:middle] = separator
    drafted = make(automaton([tools.WEATHER], choice="required"))
    plain = make(automaton([tools.WEATHER], choice="required"))
    at = 0
    while at < len(answer):
        drafts = answer[at : at + rng.randint(1, 6)]
        if rng.random() < 0.5:
            drafts.insert(rng.randint(0, len(drafts)), rng.randrange(vocabulary.size))
        valid = drafted.validate_tokens(list(drafts))
        assert valid == drafts[: len(valid)]
        for token in valid:
            assert token in allowed(drafted, vocabulary)
            assert drafted.accept_tokens("r", [token])
        drafted.rollback(len(valid))
        assert allowed(drafted, vocabulary) == allowed(plain, vocabulary)
        step = answer[at : at + rng.randint(1, 3)]
        assert drafted.accept_tokens("r", step)
        assert plain.accept_tokens("r", step)
        at += len(step)
    assert drafted.is_terminated()


def test_drafts_after_the_end_are_rejected(
    automaton: MakeAutomaton, make: Make, vocabulary: Vocabulary
) -> None:
    grammar = make(automaton([], choice="none"))
    end = vocabulary.marks.end_of_turn[0]
    assert grammar.validate_tokens([end, end]) == [end]
    assert not grammar.is_terminated()


def test_a_masked_token_is_rejected(grammar: EnforcementGrammar, vocabulary: Vocabulary) -> None:
    assert not grammar.accept_tokens("r", list(vocabulary.encode("a")))


@pytest.mark.parametrize("verb", ["accept_tokens", "validate_tokens", "rollback", "next_row"])
def test_an_internal_error_ends_the_sequence_without_raising(
    automaton: MakeAutomaton, make: Make, vocabulary: Vocabulary, verb: str
) -> None:
    machine: Any = automaton([tools.WEATHER], choice="required")
    grammar = make(machine)
    drafts = call(vocabulary)[:2]

    def broken(*_: Any) -> Any:
        raise RuntimeError("broken")

    setattr(machine, "rollback" if verb == "rollback" else verb, broken)
    if verb == "next_row":
        allowed(grammar, vocabulary)
    elif verb == "accept_tokens":
        assert not grammar.accept_tokens("r", drafts)
    else:
        assert grammar.validate_tokens(drafts) == []
    assert allowed(grammar, vocabulary) == {vocabulary.marks.failure}
    assert not grammar.is_terminated()
    assert grammar.validate_tokens(drafts) == []
    grammar.rollback(1)
    assert not grammar.accept_tokens("r", [vocabulary.marks.failure or 0])


def test_slow_masks_end_their_sequence(
    automaton: MakeAutomaton, make: Make, vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    grammar = make(automaton([tools.WEATHER], choice="required"))
    now = iter(range(1000))
    for clock in ("thread_time", "perf_counter"):  # each mask takes a second or more
        monkeypatch.setattr(f"time.{clock}", lambda: float(next(now)))
    masks = [allowed(grammar, vocabulary) for _ in range(1 + MAX_SLOW)]
    assert masks[-2] == {vocabulary.marks.tokens["<tool_call>"]}
    assert masks[-1] == {vocabulary.marks.failure}
    assert not grammar.accept_tokens("r", [vocabulary.marks.failure or 0])
