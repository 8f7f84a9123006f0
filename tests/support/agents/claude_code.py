"""Claude Code against a gateway, as `toolgate launch` runs it: an empty home, no network but the
gateway, its messages as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.agents.agent_cli import folders, launched, run
from tests.support.agents.client_packages import claude_command


@dataclass(frozen=True)
class ClaudeRun:
    folder: Path
    """The working directory."""
    messages: list[dict[str, Any]]
    """What `claude -p --output-format stream-json` printed."""
    errors: str

    @property
    def result(self) -> dict[str, Any]:
        """The last message: the result of the run."""
        return self.messages[-1]

    def blocks(self, kind: str) -> list[dict[str, Any]]:
        """The content blocks of a type, of the assistant's messages and of tool results."""
        contents = [m["message"]["content"] for m in self.messages if "message" in m]
        blocks = [block for content in contents if isinstance(content, list) for block in content]
        return [block for block in blocks if block["type"] == kind]


def run_claude(
    url: str,
    key: str,
    folder: Path,
    task: str,
    *options: str,
    model: str = "tiny",
    program: Path | None = None,
    **more: str,
) -> ClaudeRun:
    """Runs `claude -p` in a new folder below `folder`. `options` are those of `claude`. `program`:
    another one than that of the clients' packages. `more` is added to its environment."""
    home, work = folders(folder)
    command, path = launched(program or claude_command(), url, model)
    environment = {
        **path,
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "TOOLGATE_API_KEY": key,
        "CLAUDE_CODE_MAX_RETRIES": "0",
        **more,
    }
    command += ["-p", task, "--output-format", "stream-json", "--verbose", *options]
    return ClaudeRun(work, *run(command, work, environment))
