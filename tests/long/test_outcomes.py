"""What long tests have in common: outcomes of seeds, and the validation of arguments."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.long.outcomes import Outcome, Runs
from tests.support.schemas.judge import schema_violation

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


@pytest.mark.parametrize(
    ("value", "valid"), [(15, True), (16, False), (1.25e24, True), (float("inf"), True)]
)
def test_a_float_does_not_tell_whether_a_large_number_is_a_multiple(
    value: float, valid: bool
) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "number", "multipleOf": 5}}}
    assert (schema_violation(schema, {"x": value}) is None) == valid


@pytest.mark.parametrize(
    ("value", "valid"),
    [("2026-11-26T10:00:00Z", True), ("2026-11-26 noon", False), ("null", True), (7, False)],
)
def test_formats_are_assertions(value: Any, valid: bool) -> None:
    """If they were not, the text `null` would satisfy both parts, and be invalid."""
    time = {"type": "string", "format": "date-time"}
    schema = {"type": "object", "properties": {"x": {"oneOf": [time, {"const": "null"}]}}}
    assert (schema_violation(schema, {"x": value}) is None) == valid
