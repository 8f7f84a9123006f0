"""Coding agents that work on when their conversation is longer than the context of the model."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import uvicorn

from tests.support.agents.agent_cli import (
    CodexRun,
    launch_codex,
    run_claude,
    run_codex,
    run_opencode,
)
from tests.support.agents.working_model import DONE, FINISHED, RECORD, TASK, WorkingModel
from tests.support.litellm.own_route import MASTER, Gateway
from tests.support.servers.fake_backend import INFO
from tests.support.servers.script import Script
from toolgate_proxy.server.request_scope import RequestScope

WINDOW = 32_768
STEPS, TURNS = 20, 3
"""Commands for each message of the user, and such messages. Their results alone are 54,000
tokens."""


@asynccontextmanager
async def serving(gateway: Gateway) -> AsyncIterator[str]:
    """The URL of the gateway in this process, which knows the window of its model."""
    limits = INFO.limits.model_copy(update={"max_model_len": WINDOW})
    gateway.backend.info = INFO.model_copy(update={"limits": limits})
    gateway.backend.scripts["hi"] = Script(("Hello there",))
    await gateway.ask({"model": "tiny", "messages": [{"role": "user", "content": "hi"}]})
    config = uvicorn.Config(RequestScope(gateway._app), log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        running = asyncio.create_task(server.serve([listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await running


def claude(url: str, folder: Path, task: str, resumed: bool) -> str:
    options = ["--tools", "Bash", "--allowedTools", "Bash", *(["--continue"] if resumed else [])]
    run = run_claude(url, MASTER, folder, task, *options)
    assert run.result["subtype"] == "success", run
    return str(run.result["result"])


def codex(runs: Callable[..., CodexRun], url: str, folder: Path, task: str, resumed: bool) -> str:
    options = ["resume", "--last"] if resumed else []
    run = runs(url, MASTER, folder, task, *options)
    assert run.events[-1]["type"] == "turn.completed", run
    return str(run.items("agent_message")[-1]["text"])


def opencode(url: str, folder: Path, task: str, resumed: bool) -> str:
    run = run_opencode(url, MASTER, folder, task, *(["--continue"] if resumed else []))
    assert run.texts, run
    return run.texts[-1]


CODEX_WINDOW = {
    "model_context_window": WINDOW,
    "model_auto_compact_token_limit": WINDOW * 3 // 4,
}
IN_CONFIGURATION = [
    part for name, value in CODEX_WINDOW.items() for part in ("-c", f"{name}={value}")
]


def codex_of_openai(url: str, key: str, folder: Path, task: str, *options: str) -> CodexRun:
    """With Codex's own provider, and the window in its configuration."""
    return run_codex(url, key, folder, task, *IN_CONFIGURATION, *options, built_in=True)


CLIENTS = {
    "claude": claude,
    "codex": partial(codex, launch_codex),
    "codex-openai": partial(codex, codex_of_openai),
    "opencode": opencode,
}


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_client_works_on_past_the_window(gateway, client, tmp_path):
    """Each step is taken once: no prompt lacks what was done before. No prompt is too long."""
    async with serving(gateway) as url:
        model = gateway.backend.model = WorkingModel(WINDOW)
        for turn in range(TURNS):
            goal = STEPS * (turn + 1)
            said = await asyncio.to_thread(
                CLIENTS[client], url, tmp_path, TASK.format(goal), turn > 0
            )
            assert FINISHED.format(goal) in said
    steps = (tmp_path / "work" / RECORD).read_text().splitlines()
    assert steps == [DONE.format(step + 1) for step in range(STEPS * TURNS)]
    assert model.summaries
    assert not model.refused
