"""Outcomes of seeds: a run goes on from its file, and the report has all violations."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.long.outcomes import Outcome, Runs

OUTCOMES = [Outcome(seed, 1.5, {"steps": "40"}, Counter({"walks": 12})) for seed in (3, 5)]
OUTCOMES[0].violations.append("qwen3: wrong")


def test_a_run_goes_on_from_its_file_and_reports_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "outcomes"
    for outcome in OUTCOMES:
        Runs(file).add(outcome)
    runs = Runs(file, steps="40")
    assert runs.done == {outcome.seed: outcome for outcome in OUTCOMES}
    assert [*runs.missing(range(6))] == [0, 1, 2, 4]
    assert Runs(file, steps="50").done == Runs(tmp_path / "none").done == {}
    assert runs.report("seeds") == 1
    page = capsys.readouterr().out
    assert "| walks | 24 |" in page
    assert "Violations: 1\nseed 3: qwen3: wrong\n" in page
