"""The classes of OpenAI's Agents SDK run the built-in tools, with our models."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from tests.support.agents.client_packages import CLIENTS, client_python
from tests.support.litellm.own_route import MASTER, Gateway
from tests.support.servers.loopback import served
from tests.support.servers.script import Script, call
from toolgate_proxy.app import Gateway as App

RUN_SECONDS = 60
COMMANDS = ["printf a", "printf b >&2; exit 3"]


def operation(kind: str, **more: str) -> str:
    return call("apply_patch", {"operation": {"type": kind, "path": "notes.txt", **more}})


CALLS = (
    call("shell", {"commands": COMMANDS}),
    operation("create_file", diff="+one\n+three\n"),
    operation("update_file", diff="@@\n one\n-three\n+two\n"),
    call("local_shell", {"command": ["cat", "notes.txt"]}),
    operation("update_file", diff="@@\n no such line\n-three\n+two\n"),
    operation("delete_file"),
)


async def test_the_tools_of_the_agents_sdk(gateway: Gateway, tmp_path: Path) -> None:
    python = await asyncio.to_thread(client_python)
    texts = (*CALLS, "All is done.") * 2
    gateway.backend.turns += [Script((text,)) for text in texts]
    async with served(App(gateway.host)) as url:
        program = await asyncio.create_subprocess_exec(
            *(str(python), str(CLIENTS / "use_builtin_tools.py")),
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "GATEWAY_URL": url, "GATEWAY_KEY": MASTER,
                 "GATEWAY_BIAS": "{}"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        output, _ = await asyncio.wait_for(program.communicate(), RUN_SECONDS)
    assert program.returncode == 0, output.decode()[-6000:]
    assert output.count(b"checked:") == 2
    assert not gateway.backend.turns
    results = [each["content"] for each in gateway.backend.messages() if each["role"] == "tool"]
    assert results[:4] == [
        "a\n[exit code 0]\n[stderr]\nb\n[exit code 3]",
        "Created notes.txt",
        "Updated notes.txt",
        "one\ntwo",
    ]
    assert results[4].startswith("Error: ")
    assert results[5] == "Done"
