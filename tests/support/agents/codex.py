"""Codex CLI against a gateway: an empty home, no network but the gateway, its events as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.agents.agent_cli import folders, launched, run
from tests.support.agents.client_packages import codex_command

CONFIGURATION = """\
model = "tiny"
model_provider = "gateway"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.gateway]
name = "gateway"
base_url = "{url}/v1"
env_key = "GATEWAY_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"""
BUILT_IN = """\
model = "tiny"
openai_base_url = "{url}/v1"
check_for_update_on_startup = false

[analytics]
enabled = false
"""
"""With Codex's own provider, which asks for a WebSocket first."""
EXEC = ("exec", "--json", "--skip-git-repo-check")
CATALOG = {
    "slug": "tiny",
    "display_name": "tiny",
    "description": "A model under test.",
    "base_instructions": "Use the tools.",
    "shell_type": "unified_exec",
    "apply_patch_tool_type": "freeform",
    "supports_parallel_tool_calls": True,
    "supports_reasoning_summaries": False,
    "supported_reasoning_levels": [],
    "experimental_supported_tools": [],
    "support_verbosity": True,
    "default_verbosity": "low",
    "supported_in_api": True,
    "visibility": "list",
    "priority": 1,
    "context_window": 60_000,
    "truncation_policy": {"mode": "tokens", "limit": 10_000},
    "supports_search_tool": True,
}
"""An entry of Codex's model catalogue: a model with short instructions, the custom tool
`apply_patch` and a search for the tools of MCP servers. Without an entry, Codex sends instructions
of 17,000 characters."""


@dataclass(frozen=True)
class CodexRun:
    folder: Path
    """The working directory."""
    events: list[dict[str, Any]]
    """What `codex exec --json` printed."""
    errors: str

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
    `in_catalog`: with the entry `CATALOG` for the model, which Codex does not know otherwise.
    `built_in`: with Codex's own provider at the URL of the gateway."""
    home, work = folders(folder)
    (home / "config.toml").write_text((BUILT_IN if built_in else CONFIGURATION).format(url=url))
    if built_in:
        (home / "auth.json").write_text(json.dumps({"auth_mode": "apikey", "OPENAI_API_KEY": key}))
    if in_catalog:
        catalog = home / "models.json"
        catalog.write_text(json.dumps({"models": [CATALOG]}))
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
