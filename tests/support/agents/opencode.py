"""OpenCode against a gateway, as `toolgate launch` runs it: an empty home, no network but the
gateway, its events as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.agents.agent_cli import folders, launched, run
from tests.support.agents.client_packages import opencode_command

OFFLINE = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")


@dataclass(frozen=True)
class OpencodeRun:
    folder: Path
    """The working directory."""
    events: list[dict[str, Any]]
    """What `opencode run --format json` printed."""
    errors: str

    @property
    def texts(self) -> list[str]:
        """What the model said."""
        return [each["part"]["text"] for each in self.events if each["type"] == "text"]


def run_opencode(url: str, key: str, folder: Path, task: str, *options: str) -> OpencodeRun:
    """Runs `opencode run` in a new folder below `folder`. `options` are those of `opencode run`."""
    home, work = folders(folder)
    command, path = launched(opencode_command(), url)
    environment = {
        **path,
        "HOME": str(home),
        "TOOLGATE_API_KEY": key,
        "OPENCODE_PERMISSION": '{"*": "allow"}',
        **{f"OPENCODE_DISABLE_{name}": "1" for name in OFFLINE},
    }
    command += ["run", "--format", "json", *options, task]
    return OpencodeRun(work, *run(command, work, environment))
