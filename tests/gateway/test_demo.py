"""`toolgate demo`: the cases hold on a random model, and the shipped model's answers are true."""

from __future__ import annotations

import io
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from tests.models import tiny_model
from toolgate_proxy.demo import run as demo
from toolgate_proxy.demo.cases import cases
from toolgate_proxy.stack.processes import free_port
from toolgate_proxy.stack.stack import StackOptions

from .stack import Stack

SECONDS = 300
SHOWN = cases()[1::4]
"""Some cases, one of each kind of tool_choice: test_cases.py runs all of them."""


def test_the_demo_shows_each_case_beside_the_unconstrained_model(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "cases", lambda: SHOWN)
    running: Any = SimpleNamespace(
        url=stack.url,
        master_key=stack.master_key,
        backend_url=stack.backend_url,
        backend_key=stack.backend_key,
        model="tiny",
    )
    output = io.StringIO()
    failed = demo._run_cases(running, StackOptions(str(tiny_model())), Console(file=output))
    assert failed == 0, output.getvalue()
    sections = output.getvalue().split("──── ")
    for case, section in zip(SHOWN, [text for text in sections if "tools=[" in text], strict=True):
        assert case.title in section
        [line] = [each for each in section.splitlines() if "unconstrained output: " in each]
        assert len(line) > len("unconstrained output: ")
        for name in case.properties:
            assert f"✓ {name}" in section


@pytest.mark.slow
def test_the_shipped_models_demo_ends_with_every_answer_true() -> None:
    command = [sys.executable, "-m", "toolgate_proxy", "demo", "--once", "--port", str(free_port())]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    output = " ".join(ended.stdout.split())
    assert ended.returncode == 0, output
    assert "have all properties, and all responses are correct" in output
    assert "✗" not in output
