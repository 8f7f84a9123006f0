"""`toolgate demo --once` with the shipped model, as a user runs it."""

from __future__ import annotations

import subprocess
import sys

from toolgate_proxy.stack.processes import free_port

SECONDS = 300


def test_the_demo_holds_and_answers_truly() -> None:
    command = [sys.executable, "-m", "toolgate_proxy", "demo", "--once", "--port", str(free_port())]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    said = " ".join(ended.stdout.split())
    assert ended.returncode == 0, said
    assert "every property held, streamed and not, and every answer was true" in said
    assert said.count("the model alone:") == 10  # six cases, three of them both ways, and the loop
    assert "✗" not in said
