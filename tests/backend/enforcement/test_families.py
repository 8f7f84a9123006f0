"""Random walks in every dialect, with its marks as tokens and as text."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import jsonschema
import pytest

from tests.support.dialects.model import PARAMETERS, DialectModel, calls_in, walk
from tests.support.effort import repeats
from toolgate_core.deltas import CallEnd, Finish
from toolgate_core.dialects.mark_texts import mark_texts, special_tokens
from toolgate_core.dialects.registry import DIALECTS

ENDED_WALKS = repeats(1, nightly=6)
NAMES = [name for name, dialect in DIALECTS.items() if dialect.calls]
ADDED_MARKS = ("deepseek_v32", "gigachat35", "minimax_m3", "glm47", "mistral_v13", "gemma4")
"""Families with models whose tokenizers have marks as added tokens that are not special."""


@pytest.fixture(scope="module", params=NAMES)
def dialect_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=["tokens", pytest.param("text", marks=pytest.mark.slow)])
def model(request: pytest.FixtureRequest, dialect_name: str) -> Iterator[DialectModel]:
    dialect = DIALECTS[dialect_name]
    return DialectModel(dialect, mark_texts(dialect) if request.param == "tokens" else ())


@pytest.mark.exhaustive
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_random_walks_give_valid_calls(model: DialectModel, choice: str) -> None:
    machine, dice = model.automaton(choice=choice), random.Random(5)
    required = choice == "required"
    ended = 0
    for seed in range(repeats(6, nightly=24)):
        if ended == ENDED_WALKS:
            break
        machine.reset()
        tokens, _, whole = walk(machine, model, seed, 500)
        if not whole:
            continue
        ended += 1
        events = model.segment(tokens, required=required)
        calls = calls_in(events)
        for name, arguments in calls:
            jsonschema.validate(json.loads(arguments), PARAMETERS[name])
        assert bool(calls) or not required
        assert events[-1] == Finish("tool_calls" if calls else "stop")
        assert sum(isinstance(event, CallEnd) for event in events) == len(calls)
        parts = model.segment(tokens, [dice.randrange(len(tokens)) for _ in range(5)])
        assert calls_in(parts) == calls
    assert ended


def shortest_call(model: DialectModel) -> int:
    tokens = model.vocabulary.call_tokens
    return min(
        tokens.shortest_call(each.name, each.least_tokens or 0, first=True)
        for each in model.tools()
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("spare", [-1, 14])
def test_a_turn_in_a_small_budget_is_whole_or_cut(model: DialectModel, spare: int) -> None:
    """A call that exceeds the budget does not begin, nor does a message that only a call may
    follow."""
    budget = shortest_call(model) + spare
    machine = model.automaton(choice="auto", budget=budget)
    for seed in range(repeats(3, nightly=12)):
        machine.reset()
        tokens, phases, whole = walk(machine, model, seed, limit=budget)
        model.segment(tokens, reason="stop" if whole else "length")
        assert spare >= 0 or "TOOL_CALL" not in phases, model.text(tokens)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ADDED_MARKS)
def test_calls_are_valid_with_marks_that_are_not_special(name: str) -> None:
    model = DialectModel(DIALECTS[name], special_tokens(DIALECTS[name]), special=False)
    machine = model.automaton(choice="required")
    ended = 0
    for seed in range(12):
        machine.reset()
        tokens, _, whole = walk(machine, model, seed)
        calls = calls_in(model.segment(tokens, required=True)) if whole else []
        for tool, arguments in calls:
            jsonschema.validate(json.loads(arguments), PARAMETERS[tool])
        ended += whole
    assert ended >= 6
