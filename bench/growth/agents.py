"""Prompt tokens of coding agents with 40 tools of an MCP server, with and without tool search.

    python -m bench growth MODEL_DIR --only agents

Runs Claude Code and Codex by `toolgate launch` on one task each, twice: with the search for tools
that `toolgate launch` sets, and with all tools in each request. What the model does with the task
is up to it: with random weights, most sessions are a single request. Reported are the requests of
each session and the tokens of their prompts, as the gateway's access log has them.

Installs the agents below .cache/clients at the first run. Clients need a context of 32,768 tokens.
Random weights use up what the prompt leaves of it.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.support.contenders import Server, log_of, running
from tests.support.agents.agent_cli import ClaudeRun, CodexRun, launch_codex, run_claude
from tests.support.agents.client_packages import bundled_claude
from tests.support.markdown import table
from tests.support.servers.mcp_shop import CATALOGUE_SERVER
from toolgate_proxy.ops.launch import CLIENTS, AgentModel

TASK = "Look up record 7 of shelf 3 with a tool, and say what you found."
CONTEXT = 32_768
FLAGS = (
    *("--max-model-len", str(CONTEXT)),
    *("--hf-overrides", json.dumps({"max_position_embeddings": CONTEXT})),
)
LABEL = "agents"
SECONDS_TO_LOG = 2
"""Seconds after which the requests of an agent that has ended are in the log."""
PATHS = {"claude": "/v1/messages", "codex": "/v1/responses"}
SHOP = "shop"
"""Name of the MCP server."""

Session = Callable[[Server, Path, str, bool], ClaudeRun | CodexRun]
"""Runs an agent on a task in a folder, with tool search or without it."""


@dataclass(frozen=True)
class Prompts:
    """The prompts of one session."""

    tokens: list[int]

    def cells(self) -> list[str]:
        first = self.tokens[0] if self.tokens else 0
        return [f"{number:,}" for number in (len(self.tokens), first, sum(self.tokens))]


def claude(server: Server, folder: Path, task: str, search: bool) -> ClaudeRun:
    servers = json.dumps({"mcpServers": {SHOP: CATALOGUE_SERVER}})
    return run_claude(
        server.url,
        server.key,
        folder,
        task,
        *("--mcp-config", servers, "--allowedTools", f"mcp__{SHOP}"),
        model=server.model_name(),
        program=bundled_claude(),
        **({} if search else {"ENABLE_TOOL_SEARCH": "false"}),
    )


def codex(server: Server, folder: Path, task: str, search: bool) -> CodexRun:
    model = server.model_name()
    settings = {f"mcp_servers.{SHOP}.{name}": value for name, value in CATALOGUE_SERVER.items()}
    if not search:
        path = folder / "models.json"
        catalog = CLIENTS["codex"].content(target_of(server, model))
        path.write_text(json.dumps(without_search(catalog)))
        settings["model_catalog_json"] = str(path)
    options = [
        part for name, value in settings.items() for part in ("-c", f"{name}={json.dumps(value)}")
    ]
    return launch_codex(server.url, server.key, folder, task, *options, model=model)


SESSIONS: Mapping[str, Session] = {"claude": claude, "codex": codex}


def target_of(server: Server, model: str) -> AgentModel:
    shown = json.loads(server.get(f"/v1/models/{model}"))
    return AgentModel.of_model(server.url, model, shown)


def without_search(models: Mapping[str, Any]) -> dict[str, Any]:
    """Return Codex's catalogue of models without the search for tools."""
    return {"models": [{**each, "supports_search_tool": False} for each in models["models"]]}


def prompts(lines: Iterable[str], path: str) -> Prompts:
    """Return the prompts of the requests at a path, from lines of the gateway's log."""
    records = (json.loads(line) for line in lines if line.startswith("{"))
    return Prompts(
        [
            each["prompt_tokens"]
            for each in records
            if each.get("path") == path and each.get("prompt_tokens")
        ]
    )


def report(found: Mapping[tuple[str, bool], Prompts]) -> str:
    """`found`: by agent, and whether it had the search."""
    head = ["agent", "tools", "requests", "first prompt, tokens", "all prompts, tokens"]
    kinds = {True: "search", False: "all at once"}
    rows = [[agent, kinds[search], *each.cells()] for (agent, search), each in found.items()]
    return table(head, rows)


def gateway_log(log: Path) -> Path:
    """Return the path of the gateway's log. `log`: that of `toolgate serve`, which names the folder
    of its processes' logs."""
    found = re.search(r"^logs: (.+)$", log.read_text(errors="replace"), re.MULTILINE)
    if found is None:
        raise RuntimeError(f"{log} does not name the folder of logs.")
    return Path(found[1]) / "gateway.log"


@contextmanager
def added_lines(path: Path) -> Iterator[list[str]]:
    """Yield a list that has the lines which were added to a file at the end."""
    begun, lines = path.stat().st_size, list[str]()
    yield lines
    with path.open("rb") as file:
        file.seek(begun)
        lines += file.read().decode(errors="replace").splitlines()


def measured(model: Path) -> str:
    """Return the table of all sessions."""
    found: dict[tuple[str, bool], Prompts] = {}
    env = {"TOOLGATE_LOG_FORMAT": "json"}
    with running("toolgate", model, flags=FLAGS, env=env, label=LABEL) as server:
        log = gateway_log(log_of(LABEL, model))
        for agent, run in SESSIONS.items():
            for search in (True, False):
                with tempfile.TemporaryDirectory() as folder, added_lines(log) as lines:
                    # Random weights may write for longer than an agent is given.
                    with suppress(subprocess.TimeoutExpired):
                        print(
                            agent, run(server, Path(folder), TASK, search).errors, file=sys.stderr
                        )
                    time.sleep(SECONDS_TO_LOG)
                found[agent, search] = prompts(lines, PATHS[agent])
    return report(found)
