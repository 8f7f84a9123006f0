"""The loop over the masks of a step: rows stay, are written when they change, and move."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests import tools
from toolgate_backend.adapters import step_masks
from toolgate_backend.adapters.step_masks import StepMasks
from toolgate_backend.adapters.structured_output import EnforcementGrammar, FailedSequence, Shared
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.jump_forward import JumpForward
from toolgate_backend.enforcement.mask_time_budget import MAX_SLOW, TIMED_STEPS
from toolgate_backend.enforcement.model_data import ModelData
from toolgate_backend.tokens.masks import FEW_WORDS, Rows, unpack, words_per_row
from toolgate_backend.tokens.vocabulary import Vocabulary

Make = Callable[[], EnforcementGrammar]
UNTOUCHED = 7
"""Words that no mask has."""


@pytest.fixture
def make(automaton: Callable[..., Automaton], model_data: ModelData) -> Make:
    shared = Shared(FailedSequence(model_data), JumpForward(lambda text: ()))
    return lambda: EnforcementGrammar(automaton([tools.WEATHER], choice="required"), shared)


@pytest.fixture
def masks(vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> StepMasks:
    monkeypatch.setattr(step_masks, "FIRST_ROWS", 2)
    return StepMasks(words_per_row(vocabulary.size), seconds=60.0)


def filled(masks: StepMasks, grammars: dict[str, EnforcementGrammar]) -> dict[str, set[int]]:
    """The masks of a step by sequence."""
    ids, rows = masks.fill(grammars)
    assert len(ids) == len(rows) == len(grammars)
    return {each: set(unpack(row).tolist()) for each, row in zip(ids, rows, strict=True)}


def test_each_sequence_has_its_mask_while_others_come_and_go(masks: StepMasks, make: Make) -> None:
    rng = random.Random(3)
    running: dict[str, EnforcementGrammar] = {}
    names = map(str, range(1000))
    for _ in range(60):
        for name in list(running):
            if rng.random() < 0.15:
                del running[name]
        while len(running) < 9 and rng.random() < 0.6:
            running[next(names)] = make()
        scheduled = rng.sample(sorted(running), rng.randint(0, len(running)))
        found = filled(masks, {name: running[name] for name in scheduled})
        assert found == {
            name: set(unpack(running[name].next_row().words).tolist()) for name in scheduled
        }
        for name, allowed in found.items():
            assert running[name].accept_tokens(name, [rng.choice(sorted(allowed))])


def test_rows_are_written_only_if_their_mask_changes(
    masks: StepMasks, make: Make, vocabulary: Vocabulary
) -> None:
    call = vocabulary.marks.tokens["<tool_call>"]
    grammars = {name: make() for name in "abc"}
    ids, _ = masks.fill(grammars)
    masks._bitmask[:] = UNTOUCHED
    assert grammars["b"].accept_tokens("b", [call])
    again, rows = masks.fill(dict(reversed(grammars.items())))  # scheduled in another order
    assert again == ids
    assert [bool((row != UNTOUCHED).any()) for row in rows] == [each == "b" for each in ids]


def test_a_sequence_keeps_its_row_when_others_end(masks: StepMasks, make: Make) -> None:
    grammars = {name: make() for name in "abcd"}
    masks.fill(grammars)
    masks._bitmask[:] = UNTOUCHED
    del grammars["b"]
    ids, rows = masks.fill(grammars)
    assert ids == ["a", "d", "c"]
    assert (rows[[0, 1, 2]] == UNTOUCHED).all()  # the same mask in each
    ids, _ = masks.fill({"e": make()} | grammars)
    assert ids == ["a", "d", "c", "e"]


def test_a_row_is_written_over_any_other(vocabulary: Vocabulary, make: Make) -> None:
    """Rows with few words are written by these, others as a whole."""
    rng, rows = random.Random(5), Rows()
    words = words_per_row(vocabulary.size)
    masks, grammar = StepMasks(words, seconds=60.0), make()
    machine: Any = grammar.automaton
    for _ in range(60):
        row = np.zeros(words, np.int32)
        filled = rng.sample(range(words), rng.choice((0, 1, FEW_WORDS, FEW_WORDS + 1, words)))
        row[filled] = [rng.randint(-(2**31), 2**31 - 1) for _ in filled]
        machine.row = rows.row(row)
        _, [written] = masks.fill({"a": grammar})
        assert (written == row).all()


def test_an_earlier_order_of_rows_does_not_change(masks: StepMasks, make: Make) -> None:
    """vLLM has it already."""
    grammars = {name: make() for name in "ab"}
    ids, _ = masks.fill(grammars)
    masks.fill({"c": make()})
    assert ids == ["a", "b"]


def test_a_failing_sequence_does_not_affect_others(
    masks: StepMasks, make: Make, vocabulary: Vocabulary
) -> None:
    grammars = {name: make() for name in "abc"}
    machine: Any = grammars["b"].automaton
    machine.row, machine.next_row = None, lambda: 1 / 0
    call = vocabulary.marks.tokens["<tool_call>"]
    assert filled(masks, grammars) == {"a": {call}, "b": {vocabulary.marks.failure}, "c": {call}}
    assert not grammars["b"].accept_tokens("b", [vocabulary.marks.failure or 0])
    assert grammars["c"].accept_tokens("c", [call])


def test_slow_masks_end_their_sequence(
    make: Make, vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only masks that are computed in a slow step, or soon after it, are timed."""
    now = 0.0
    for clock in ("thread_time", "perf_counter"):
        monkeypatch.setattr(f"time.{clock}", lambda: now)
    masks = StepMasks(words_per_row(vocabulary.size), seconds=1.0)
    grammars = {name: make() for name in "ab"}
    machine: Any = grammars["a"].automaton
    row = machine.next_row()

    def slow() -> Any:
        nonlocal now
        now += 2.0
        return row

    machine.row, machine.next_row = None, slow
    call = {vocabulary.marks.tokens["<tool_call>"]}
    # The first slow step is not timed, and the first slow mask is only noticed.
    for _ in range(1 + MAX_SLOW):
        assert filled(masks, grammars) == {"a": call, "b": call}
    assert filled(masks, grammars) == {"a": {vocabulary.marks.failure}, "b": call}
    assert masks._timer._timed_steps
    for _ in range(TIMED_STEPS):
        filled(masks, grammars)
    assert not masks._timer._timed_steps
