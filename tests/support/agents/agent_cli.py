"""Coding agents against a gateway, as `toolgate launch` runs them: no network but the gateway."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.agents.client_packages import (
    NO_NETWORK,
    RUN_SECONDS,
    claude_command,
    codex_command,
    opencode_command,
)


def folders(folder: Path) -> tuple[Path, Path]:
    """The home and the working directory below `folder`."""
    home, work = folder / "home", folder / "work"
    home.mkdir(exist_ok=True)
    work.mkdir(exist_ok=True)
    return home, work


def launched(client: Path, url: str, model: str = "tiny") -> tuple[list[str], dict[str, str]]:
    """The beginning of a command that runs a client by `toolgate launch`, and its PATH."""
    command = [sys.executable, "-m", "toolgate_proxy", "launch", client.name]
    path = f"{client.parent}{os.pathsep}{os.environ['PATH']}"
    return [*command, "--url", url, "--model", model, "--"], {"PATH": path}


def run(
    command: Sequence[str], work: Path, environment: Mapping[str, str]
) -> tuple[list[dict[str, Any]], str]:
    """What the command printed: its lines of JSON, and the end of its errors. `environment` is
    added to one without network."""
    done = subprocess.run(
        command,
        cwd=work,
        env={"PATH": os.environ["PATH"], **NO_NETWORK, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return lines, done.stderr[-4000:]


@dataclass(frozen=True)
class Run:
    folder: Path
    """The working directory."""
    events: list[dict[str, Any]]
    """What `claude -p --output-format stream-json`, `codex exec --json` or `opencode run --format
    json` printed."""
    errors: str


class ClaudeRun(Run):
    @property
    def result(self) -> dict[str, Any]:
        """The last message: the result of the run."""
        return self.events[-1]

    def blocks(self, kind: str) -> list[dict[str, Any]]:
        """The content blocks of a type, of the assistant's messages and of tool results."""
        contents = [m["message"]["content"] for m in self.events if "message" in m]
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


CODEX: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("codex.yaml").read_text())
EXEC = ("exec", "--json", "--skip-git-repo-check")


class CodexRun(Run):
    def items(self, kind: str) -> list[dict[str, Any]]:
        """The completed items of a type: `command_execution`, `file_change`, `agent_message` …"""
        done = [event["item"] for event in self.events if event["type"] == "item.completed"]
        return [item for item in done if item["type"] == kind]


def run_codex(
    url: str,
    key: str,
    folder: Path,
    task: str,
    *options: str,
    in_catalog: bool = False,
    built_in: bool = False,
    sandbox: str = "danger-full-access",
) -> CodexRun:
    """Runs `codex exec` in a new folder below `folder`. `options` are those of `codex exec`.
    `in_catalog`: with the entry of `codex.yaml` for the model, which Codex does not know otherwise.
    `built_in`: with Codex's own provider at the URL of the gateway."""
    home, work = folders(folder)
    (home / "config.toml").write_text(
        CODEX["built_in" if built_in else "configuration"].format(url=url)
    )
    if built_in:
        (home / "auth.json").write_text(json.dumps({"auth_mode": "apikey", "OPENAI_API_KEY": key}))
    if in_catalog:
        catalog = home / "models.json"
        catalog.write_text(json.dumps({"models": [CODEX["catalog"]]}))
        options = (*options, "-c", f"model_catalog_json={json.dumps(str(catalog))}")
    environment = {"HOME": str(home), "CODEX_HOME": str(home), "GATEWAY_KEY": key}
    command = [str(codex_command()), *EXEC, "--sandbox", sandbox, *options, task]
    return CodexRun(work, *run(command, work, environment))


def launch_codex(
    url: str, key: str, folder: Path, task: str, *options: str, model: str = "tiny"
) -> CodexRun:
    """Runs `toolgate launch codex -- exec`."""
    home, work = folders(folder)
    command, path = launched(codex_command(), url, model)
    environment = {**path, "HOME": str(home), "CODEX_HOME": str(home), "TOOLGATE_API_KEY": key}
    command += [*EXEC, "--sandbox", "danger-full-access", *options, task]
    return CodexRun(work, *run(command, work, environment))


OFFLINE = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")


class OpencodeRun(Run):
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
