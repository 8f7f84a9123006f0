"""Random walks through masks: of hostile tools, and of real schemas in other scripts. No call is
invalid, no walk ends where nothing may follow, and what is wrong is found."""

from __future__ import annotations

import time
from collections import Counter
from random import Random
from typing import Any

import jsonschema
import numpy as np
import pytest

from tests.long import walks as walk
from tests.long.outcomes import Outcome
from tests.long.transliterated import ALL_FORMS, schemas, violations
from tests.long.walks import parameters
from tests.support.effort import repeats, rotating
from tests.support.installed import needs
from tests.support.schemas.scripts import SCRIPTS, transliterated
from tests.support.shared_data import BFCL
from toolgate_backend.enforcement.automaton import Automaton

SEED = 1


def test_the_schemas_are_valid_and_different() -> None:
    made = [parameters(Random(seed)) for seed in range(60)]
    for schema in made:
        jsonschema.Draft202012Validator.check_schema(schema)
    assert len({str(schema) for schema in made}) > 50


@pytest.mark.exhaustive
@needs(BFCL)
@rotating("form", ALL_FORMS, one_in=3)
def test_calls_with_names_in_other_scripts_are_valid(form: str) -> None:
    counts: Counter[str] = Counter()
    for at, (script, write) in enumerate(SCRIPTS.items()):
        for schema in schemas()[at :: repeats(len(schemas()) // 2, nightly=1)]:
            assert not violations(form, transliterated(schema, write), counts), script
    assert counts["walks: ended"]


@pytest.mark.exhaustive
def test_walks_validate_calls_and_find_nothing_wrong() -> None:
    outcome = walk.run(SEED)
    assert outcome.violations == []
    assert outcome.counts["walks"] == walk.WALKS
    assert outcome.counts["calls: validated"] > 0
    assert outcome.counts["drafts"] > 0


def test_a_seed_that_does_not_end_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(seed: int, outcome: Outcome) -> None:
        while True:
            time.sleep(0.1)

    monkeypatch.setattr(walk, "SEED_SECONDS", 1)
    monkeypatch.setattr(walk, "_run", endless)
    assert walk.run(SEED).violations == ["did not end within 1 s"]


@pytest.mark.slow
def test_masks_that_allow_too_much_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def everything(machine: Automaton, row: Any) -> None:
        row[:] = -1

    monkeypatch.setattr(Automaton, "fill_bitmask", everything)
    found = walk.run(SEED).violations
    assert sum("is refused" in each for each in found) > walk.WALKS // 3


@pytest.mark.slow
def test_a_mask_that_differs_after_a_rollback_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real, rolled_back = Automaton.fill_bitmask, Automaton.rollback
    state = {"back": False}

    def rollback(machine: Automaton, count: int) -> None:
        rolled_back(machine, count)
        state["back"] = True

    def fill(machine: Automaton, row: Any) -> None:
        real(machine, row)
        if state.pop("back", False):
            row[np.flatnonzero(row)[0]] ^= 1

    monkeypatch.setattr(Automaton, "rollback", rollback)
    monkeypatch.setattr(Automaton, "fill_bitmask", fill)
    assert any("another mask after a rollback" in each for each in walk.run(SEED).violations)


@pytest.mark.slow
def test_arguments_that_violate_the_schema_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        walk, "calls_in", lambda _: [("tool_0", '{"surely not a name of a property": 1}')]
    )
    monkeypatch.setattr(walk, "tools", lambda _: [strict()])
    found = walk.run(SEED).violations
    assert found
    assert all("surely not a name" in each for each in found)


def strict() -> dict[str, Any]:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    function = {"name": "tool_0", "parameters": schema | {"additionalProperties": False}}
    return {"type": "function", "function": function}
