"""A short run of hostile loops, and that the judgement finds what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.long.hostile_loops.answers import Answer, comparable
from tests.long.hostile_loops.model import DAMAGES, LOOP, SCHEMAS, RandomModel, instance, is_valid
from tests.long.hostile_loops.run import Load, loops, make_body
from tests.long.outcomes import Outcome
from tests.support.litellm.own_route import PATHS, Gateway


async def test_a_short_run_finds_nothing() -> None:
    outcome = await loops(seed=1, number=20, concurrency=5)
    assert outcome.violations == []
    assert outcome.counts["calls that ran"] > 20
    assert outcome.counts["compared: streamed and whole"] > 3


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_arguments_are_invalid(damage: str) -> None:
    rng = Random(damage)
    for name, schema in [(name, each) for name, some in SCHEMAS.items() for each in some]:
        arguments = instance(schema, rng) | {LOOP: 1}
        assert is_valid(name, arguments)
        damaged: Any = DAMAGES[damage](arguments)
        if isinstance(damaged, str):
            try:
                damaged = json.loads(damaged)
            except ValueError:
                continue
        assert not is_valid(name, damaged)


@pytest.mark.parametrize("api", PATHS)
def test_requests_are_repeated_exactly(api: str) -> None:
    first, second = (
        [make_body(Random(f"{seed}"), api, seed, quiet=False) for seed in range(20)]
        for _ in range(2)
    )
    assert first == second
    assert len({json.dumps(each) for each in first}) == 20


async def test_the_judgement_finds_invalid_calls_and_broken_limits(
    gateway: Gateway, tmp_path: Path
) -> None:
    calls, outcome, model = tmp_path / "calls", Outcome(0), RandomModel(0)
    load = Load(gateway, model, calls, outcome)
    valid = {"name": "slow", "arguments": {LOOP: 3, "value": 1}}
    invalid = {"name": "slow", "arguments": {LOOP: 4, "value": "one"}}
    calls.write_text("\n".join(map(json.dumps, (valid, valid, invalid))))
    load._limits = {3: 1}
    model.rounds[5] = 11
    load._judge_calls()
    found = "\n".join(outcome.violations)
    assert len(outcome.violations) == 3
    assert "an invalid call ran" in found
    assert "2 calls ran, and it allows 1" in found
    assert "11 rounds" in found


def test_what_differs_in_each_response_is_not_compared() -> None:
    first = [{"id": "a", "text": "x", "parts": [{"call_id": "b"}]}]
    second = [{"id": "c", "text": "x", "parts": [{"call_id": "d"}]}]
    assert comparable(first) == comparable(second)
    assert comparable(first) != comparable([{"id": "a", "text": "y", "parts": [{}]}])


def test_a_response_says_that_it_could_not_list_the_tools() -> None:
    listed = {"type": "mcp_list_tools", "tools": [], "error": None}
    assert not Answer([listed, {"type": "message"}], "completed").unlisted
    assert Answer([{**listed, "error": "No tools."}], "completed").unlisted
    assert Answer(ending="invalid_tools", failed=True).unlisted
