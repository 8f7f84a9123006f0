"""Whole engines with scripted responses, on vLLM's CPU build."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.gpu_engine import run
from tests.models import tiny_model
from tests.support.shared_data import BFCL, SHARED

STREAMS = 2
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,  # three starts of vLLM, for a benchmark
    pytest.mark.skipif(
        not (SHARED / "data" / BFCL).exists(), reason="needs the BFCL data below $TOOLGATE_SHARED"
    ),
]


def test_all_kinds_write_the_same_responses_and_an_engine_that_fails_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The V2 model runner, which drafts need, does not run on a CPU."""
    arguments = [str(tiny_model()), "--out", str(tmp_path), "--streams", str(STREAMS)]
    arguments += ["--rounds", "1", "--steps", "20", "--text", "natural", "--stack", "no"]
    monkeypatch.setattr("sys.argv", ["gpu-engine", *arguments])
    assert run.main() == 1
    results = json.loads((tmp_path / "blocks.json").read_text())
    assert list(results["failed"]) == ["forced_drafts"]
    measured = {(each["engine"], each["kind"], each["round"]): each for each in results["blocks"]}
    for engine, *kinds in (
        ("structured_output", "free", "strict", "structured_output"),
        ("logits_processor", "free", "logits_processor"),
    ):
        for kind in kinds:
            for number in range(2):
                assert measured[engine, kind, number]["tokens_per_second"] > 0
    worker = measured["logits_processor", "logits_processor", 1]["by_section"]["worker"]
    assert worker > measured["structured_output", "free", 1]["by_section"]["worker"] == 0
    assert "| 2 | natural | logits_processor | logits_processor |" in capsys.readouterr().out
    assert json.loads((tmp_path / "machine.json").read_text())["torch"]
