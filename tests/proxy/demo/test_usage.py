"""What the demo prints at its end can be pasted as it is."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from tests.proxy.demo.conftest import ScriptedServer
from toolgate_proxy.demo import run as demo_run
from toolgate_proxy.demo.model import directory
from toolgate_proxy.demo.run import environment, python
from toolgate_proxy.stack.stack import StackOptions

Serve = Callable[[ScriptedServer], ScriptedServer]


def call(_body: dict[str, Any]) -> list[dict[str, Any]]:
    function = {"name": "get_weather", "arguments": '{"city": "Beijing"}'}
    calls = [{"id": "call_1", "type": "function", "function": function}]
    return [{"message": {"role": "assistant", "content": None, "tool_calls": calls}}]


@pytest.mark.exhaustive
@pytest.mark.parametrize("kept", [True, False])
def test_the_python_program_runs(serve: Serve, tmp_path: Path, kept: bool) -> None:
    gateway = serve(ScriptedServer(call))
    file = tmp_path / "a key" / "master_key"
    file.parent.mkdir()
    file.write_text("sk-kept\n")
    stack: Any = SimpleNamespace(url=gateway.url, model="m", key_file=file if kept else None)
    ran = subprocess.run(
        [sys.executable, "-c", python(stack)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TOOLGATE_MASTER_KEY": "sk-set"},
    )
    assert "get_weather" in ran.stdout
    [request] = gateway.requests
    assert request["key"] == f"Bearer {'sk-kept' if kept else 'sk-set'}"
    assert request["tool_choice"] == "required"


def test_the_variables_have_the_key_and_the_url(tmp_path: Path) -> None:
    file = tmp_path / "a key" / "master_key"
    file.parent.mkdir()
    file.write_text("sk-kept\n")
    stack: Any = SimpleNamespace(url="http://127.0.0.1:4000", model="m", key_file=file)
    script = f'{environment(stack)}\necho "$OPENAI_BASE_URL $OPENAI_API_KEY"'
    ran = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "http://127.0.0.1:4000/v1 sk-kept\n"


def test_a_demo_that_ends_prints_no_snippet_of_a_server_that_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stack: Any = SimpleNamespace(
        url="http://127.0.0.1:4000", model="m", key_file=None, master_key="sk", watch=lambda: None
    )
    monkeypatch.setattr(demo_run.Demo, "run", lambda _: 0)
    shipped = StackOptions(str(directory()))
    for once in (True, False):
        output = io.StringIO()
        console = Console(file=output, width=200)
        monkeypatch.setattr(demo_run, "run", lambda _, show, it=console: show(stack, it))
        assert demo_run.demo(shipped, once=once) == 0
        assert ("4000" in output.getvalue()) is not once
