"""Codex CLI against a running gateway whose backend answers by script."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.codex import run_codex
from tests.support.fake_backend import FakeBackend
from tests.support.gateway_process import MASTER_KEY
from tests.support.script import Script, call


@pytest.fixture(autouse=True)
def own_route(route: str) -> None:
    if route == "litellm":
        pytest.skip("LiteLLM's route does not serve it")


def messages(backend: FakeBackend, at: int) -> list[dict[str, Any]]:
    prompt = backend.requests[at].prompt
    assert prompt.kind == "chat"
    return [dict(message) for message in prompt.messages]


def test_codex_runs_a_command_and_reads_its_result(
    gateway: str, backend: FakeBackend, tmp_path: Path
) -> None:
    command = {"cmd": "echo 'it is made' > made.txt && cat made.txt"}
    backend.turns += [
        Script(
            ("<think>\nA file, then.\n</think>\n\nI run it.\n" + call("exec_command", command),)
        ),
        Script(("All is done.",)),
    ]
    # Without the tools of sub-agents, which Codex sends as a namespace.
    run = run_codex(gateway, MASTER_KEY, tmp_path, "Make a file.", "--disable", "multi_agent")
    assert not backend.turns, run
    [executed] = run.items("command_execution")
    assert executed["exit_code"] == 0
    assert (run.folder / "made.txt").read_text() == "it is made\n"
    said = [item["text"] for item in run.items("agent_message")]
    assert said == ["I run it.", "All is done."]
    assert run.events[-1]["type"] == "turn.completed"
    assert run.events[-1]["usage"]["output_tokens"] > 0

    first, second = messages(backend, 0), messages(backend, 1)
    assert first[-1] == {"role": "user", "content": [{"type": "text", "text": "Make a file."}]}
    assert second[: len(first)] == first
    turn, result = second[len(first) :]
    assert turn["reasoning_content"] == "A file, then."
    assert turn["tool_calls"][0]["function"]["name"] == "exec_command"
    assert result["role"] == "tool"
    assert "it is made" in str(result["content"])
