"""`toolgate demo`: the cases hold on a random model, and the shipped model's answers are true."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from tests.models import tiny_model
from toolgate_proxy.demo import comparison
from toolgate_proxy.demo import run as demo
from toolgate_proxy.demo.cases import cases
from toolgate_proxy.stack.processes import free_port

from .stack import Stack

SECONDS = 300
SHOWN = [*cases()][1::4]
"""Some cases, one of each kind of tool_choice: test_cases.py runs all of them."""
VALID = {"all calls are valid", "correct finish_reason"}
PROMISED = {
    "two cities, parallel calls": {"at least one call", *VALID},
    'reasoning_effort="high"': {"at least one call", "reasoning separate from content", *VALID},
    "the named function return_json": {"exactly one call of return_json", *VALID},
    "an array of exactly 3 strings of at most 6 characters": {"at most one call", *VALID},
}


def test_the_demo_shows_cases_and_a_comparison_beside_the_unconstrained_model(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "cases", lambda: SHOWN)
    running: Any = SimpleNamespace(
        url=stack.url,
        master_key=stack.master_key,
        model="tiny",
    )
    output = io.StringIO()
    failed = demo.Demo(running, str(tiny_model()), Console(file=output)).run()
    assert failed == 0, output.getvalue()
    sections = output.getvalue().split("──── ")
    for case, section in zip(
        SHOWN, [text for text in sections if "tool_choice" in text], strict=True
    ):
        assert case.title in section
        [line] = [each for each in section.splitlines() if "unconstrained output: " in each]
        assert len(line) > len("unconstrained output: ")
        for name in PROMISED[case.title]:
            assert f"✓ {name}" in section
    [summary] = re.findall(
        r"alone (\d+)/(\d+) valid.* · Toolgate (\d+)/(\d+) valid", output.getvalue()
    )
    alone, every, enforced, as_many = map(int, summary)
    assert every == as_many == comparison.NUMBER
    assert alone == 0, "random weights write no call by themselves"
    assert enforced == every


@pytest.mark.slow
def test_the_shipped_models_demo_ends_with_every_answer_true() -> None:
    command = [sys.executable, "-m", "toolgate_proxy", "demo", "--once", "--port", str(free_port())]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    output = " ".join(ended.stdout.split())
    assert ended.returncode == 0, output
    assert "have all properties, and all answers to the cases are correct" in output
    assert "✗ Toolgate" not in output
    [(alone, every)] = re.findall(r"alone (\d+)/(\d+) valid", output)
    assert int(alone) < int(every), "the demo shows what enforcement changes"
