"""Outcomes of seeds: a run goes on from its file, and the report has all violations."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.long.outcomes import Outcome, counted, keep, kept, violations

OUTCOME = Outcome(3, 1.5, {"steps": "40"}, Counter({"walks": 12}), ["qwen3: wrong"])


def test_kept_outcomes_are_found_by_their_labels(tmp_path: Path) -> None:
    file = tmp_path / "outcomes"
    keep(file, OUTCOME)
    assert kept(file) == kept(file, steps="40") == {3: OUTCOME}
    assert kept(file, steps="50") == kept(tmp_path / "none") == {}


def test_the_report_has_totals_and_violations() -> None:
    assert "| walks | 24 |" in counted([OUTCOME, OUTCOME], "seeds")
    assert violations([OUTCOME]) == ["Violations: 1", "seed 3: qwen3: wrong"]
