"""The test: one family of each shape, and families with a report do not run again."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pytest

from tests.long.dialects_verify import run
from tests.long.reports import report_of
from tests.support.servers.contenders import NotStarted
from toolgate_core.dialects.registry import DIALECTS, SHAPES


def test_each_shape_is_covered_once() -> None:
    assert [DIALECTS[name].shape for name in run.ONE_OF_EACH_SHAPE] == [*SHAPES]


def test_unknown_families_are_refused() -> None:
    assert run.families("qwen3,gemma4") == ["qwen3", "gemma4"]
    assert set(run.families("all")) == {name for name in DIALECTS if name != "plain"}
    with pytest.raises(argparse.ArgumentTypeError, match="plain, colour"):
        run.families("qwen3,plain,colour")


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The families that ran. `gemma4` breaks a rule, and `llama31` does not start."""
    ran: list[str] = []

    def one(family: str, suite: str) -> None:
        ran.append(family)
        if family == "llama31":
            raise NotStarted("exited with status 1")
        broken = "chat.schema.enum" if family == "gemma4" else ""
        path = run.reports(family, suite)
        path.with_name(f"{path.name}.json").write_text(json.dumps(report_of(broken, suite)))

    monkeypatch.setattr(run, "CACHE", tmp_path)
    monkeypatch.setattr(run, "run", one)
    return ran


def ran_with(monkeypatch: pytest.MonkeyPatch, *options: str) -> int:
    monkeypatch.setattr(sys, "argv", ["dialects-verify", *options])
    return run.main()


def test_families_with_a_report_do_not_run_again(
    ran: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    assert ran_with(monkeypatch, "--families", "qwen3", "--report", str(page)) == 0
    assert ran_with(monkeypatch, "--families", "qwen3,kimi_k2", "--report", str(page)) == 0
    assert ran == ["qwen3", "kimi_k2"]
    assert "| `qwen3` |" in page.read_text()
    assert "| `kimi_k2` |" in page.read_text()
    assert ran_with(monkeypatch, "--families", "qwen3", "--again") == 0
    assert ran_with(monkeypatch, "--families", "qwen3", "--suite", "full") == 0
    assert ran == ["qwen3", "kimi_k2", "qwen3", "qwen3"]


def test_failures_are_the_exit_status(
    ran: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran_with(monkeypatch, "--families", "gemma4,qwen3") == 1
    assert "`gemma4`: failed checks" in capsys.readouterr().out
    assert ran_with(monkeypatch, "--families", "qwen3") == 0
    assert ran_with(monkeypatch, "--families", "llama31,qwen3") == 1
    assert "llama31: exited with status 1" in capsys.readouterr().err
