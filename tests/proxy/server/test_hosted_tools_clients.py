"""Client libraries and a published MCP server: the tools that the gateway runs, and those that the
classes of SDKs run."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import anthropic
import pytest
from anthropic.tools.memory import BetaAsyncLocalFilesystemMemoryTool

from tests.proxy.server import kit
from tests.proxy.server.kit import STREAM, Json
from tests.support.agents.agent_cli import RUN_SECONDS, run_claude
from tests.support.agents.client_packages import CLIENTS, client_python, mcp_python, node_folder
from tests.support.effort import rotating
from tests.support.litellm.mcp import LOOKUP, ran, serving
from tests.support.litellm.own_route import MASTER, PATHS, Gateway, body_of
from tests.support.servers.loopback import served
from tests.support.servers.script import Script, call
from toolgate_proxy.api.responses.approvals import DENIED
from toolgate_proxy.app import Gateway as App

PAGE = {"title": "Paint", "url": "https://example.com/paint", "content": "It dries."}
SAID = {
    "mcp": "litellm_proxy/mcp/shop",
    "lookup": LOOKUP,
    "record": "lookup found record 7.",
    "found": "It is record 7.",
    "query": "news",
    "page": PAGE["url"],
    "cited": f"It dries, says {PAGE['url']} today.",
    "reason": "Once is enough.",
    "last": "That is all.",
}
MCP = (call(LOOKUP, {"id": 7}), SAID["found"], SAID["last"])
APPROVED = (MCP[0], *MCP)
SEARCH = (call("web_search", {"query": SAID["query"]}), SAID["cited"], SAID["last"])
EDITS = [
    call("str_replace_based_edit_tool", {"path": "notes.txt", **each})
    for each in (
        {"command": "create", "file_text": "one\nthree\n"},
        {"command": "view"},
        {"command": "str_replace", "old_str": "four", "new_str": "two"},
        {"command": "str_replace", "old_str": "three", "new_str": "two"},
        {"command": "insert", "insert_line": 0, "insert_text": "zero\n"},
    )
]
BOTH = (*MCP * 2, *SEARCH * 2)
"""Each once in a whole response and once in a stream."""


def patch(kind: str, **more: str) -> str:
    return call("apply_patch", {"operation": {"type": kind, "path": "notes.txt", **more}})


BUILTIN = (
    call("shell", {"commands": ["printf a", "printf b >&2; exit 3"]}),
    patch("create_file", diff="+one\n+three\n"),
    patch("update_file", diff="@@\n one\n-three\n+two\n"),
    call("local_shell", {"command": ["cat", "notes.txt"]}),
    patch("update_file", diff="@@\n no such line\n-three\n+two\n"),
    patch("delete_file"),
    "All is done.",
)


def in_python(program: str) -> list[str]:
    return [str(client_python()), str(CLIENTS / program)]


def in_node(program: str) -> list[str]:
    return ["node", str(node_folder() / program)]


PROGRAMS = {
    "agents": (in_python, "use_hosted_agents.py", (), (*MCP * 2, *APPROVED * 2, *SEARCH * 2)),
    "anthropic": (in_python, "use_hosted_anthropic.py", (), (*BOTH, *EDITS, SAID["last"])),
    "langchain": (in_python, "use_hosted_langchain.py", (), BOTH),
    "vercel": (in_node, "use_hosted_vercel.mjs", (), BOTH),
    "agents-builtin": (in_python, "use_builtin_tools.py", (), BUILTIN * 2),
    "langchain-messages": (in_python, "use_hosted_langchain.py", ("messages",), BOTH),
    "vercel-messages": (in_node, "use_hosted_vercel.mjs", ("messages",), BOTH),
}
"""By name: what runs it, the program, its arguments, and what the model says in turn."""
CLAUDE = "claude"


def results(gateway: Gateway) -> list[str]:
    return [
        str(message["content"])
        for at in range(len(gateway.backend.requests))
        for message in gateway.backend.messages(at)
        if message["role"] == "tool"
    ]


@rotating("name", [*PROGRAMS, CLAUDE], one_in=4)
async def test_a_client_uses_the_tools(gateway, calls, engine, tmp_path, name):
    engine.pages = [PAGE]
    if name == CLAUDE:
        await claude_code_searches_the_web(gateway, tmp_path)
        assert engine.queries == [SAID["query"]]
        return
    runs, file, arguments, texts = PROGRAMS[name]
    command = await asyncio.to_thread(runs, file)
    gateway.backend.turns += [Script((text,)) for text in texts]
    async with served(App(gateway.host)) as url:
        program = await asyncio.create_subprocess_exec(
            *(*command, *arguments),
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "GATEWAY_URL": url, "GATEWAY_KEY": MASTER,
                 "GATEWAY_BIAS": "{}", "HOSTED_TOOLS": json.dumps(SAID)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        output, _ = await asyncio.wait_for(program.communicate(), RUN_SECONDS)
    assert program.returncode == 0, output.decode()[-6000:]
    assert not gateway.backend.turns, output
    if name == "agents-builtin":
        assert output.count(b"checked:") == 2
        last = [each["content"] for each in gateway.backend.messages() if each["role"] == "tool"]
        assert last[:4] == [
            "a\n[exit code 0]\n[stderr]\nb\n[exit code 3]",
            "Created notes.txt",
            "Updated notes.txt",
            "one\ntwo",
        ]
        assert last[4].startswith("Error: ")
        assert last[5] == "Done"
        return
    assert ran(calls) == [{"id": 7}] * (4 if name == "agents" else 2)
    assert engine.queries == [SAID["query"]] * 2
    denied = f"{DENIED} {SAID['reason']}" in results(gateway)
    assert denied == (name == "agents")


async def claude_code_searches_the_web(gateway: Gateway, folder: Path) -> None:
    """Its tool `WebSearch` is a request of its own, with the web search of the Messages API."""
    texts = (call("WebSearch", {"query": "news"}), *SEARCH[:2], "Paint dries.")
    gateway.backend.turns += [Script((text,)) for text in texts]
    options = ("--tools", "WebSearch", "--allowedTools", "WebSearch")
    async with served(App(gateway.host)) as url:
        run = await asyncio.to_thread(run_claude, url, MASTER, folder, "Search.", *options)
    assert run.result["subtype"] == "success", run
    assert run.result["result"] == "Paint dries."
    assert not gateway.backend.turns, run
    [result] = run.blocks("tool_result")
    assert PAGE["url"] in str(result["content"])


NOTE = "/memories/tea.md"
COMMANDS = (
    {"command": "view", "path": "/memories"},
    {"command": "create", "path": NOTE, "file_text": "Green tea.\n"},
    {"command": "str_replace", "path": NOTE, "old_str": "Green", "new_str": "Black"},
    {"command": "insert", "path": NOTE, "insert_line": 0, "insert_text": "Likes:\n"},
    {"command": "rename", "old_path": NOTE, "new_path": "/memories/drinks.md"},
)


@STREAM
async def test_the_memory_tool_of_anthropics_sdk(gateway, tmp_path, stream):
    gateway.backend.turns += [Script((call("memory", each),)) for each in COMMANDS]
    gateway.backend.turns.append(Script(("I will remember.",)))
    tool = BetaAsyncLocalFilesystemMemoryTool(base_path=str(tmp_path))
    async with served(App(gateway.host)) as url:
        client = anthropic.AsyncAnthropic(base_url=url, auth_token=MASTER, max_retries=0)
        runner: Any = client.beta.messages.tool_runner(
            model="tiny",
            max_tokens=500,
            messages=[{"role": "user", "content": "I like black tea."}],
            tools=[tool],
            stream=stream,
        )
        last = await runner.until_done()
    assert last.content[0].text == "I will remember."
    assert (tmp_path / "memories" / "drinks.md").read_text() == "Likes:\nBlack tea.\n"
    seen = [each for each in gateway.backend.messages() if each["role"] == "tool"]
    assert len(seen) == len(COMMANDS)
    assert not any("Error" in str(each["content"]) for each in seen)


CALCULATE = "calculator-calculate"


@pytest.fixture
async def calculator():
    """The address of an MCP server as it is published on PyPI."""
    arguments = ["-m", "mcp_server_calculator"]
    command = {"transport": "stdio", "command": str(mcp_python()), "args": arguments}
    async with serving(calculator=command):
        yield "litellm_proxy/mcp/calculator"


@pytest.mark.slow
@pytest.mark.parametrize("api", ["responses", "messages"])
async def test_a_published_mcp_server_computes(gateway, calculator, api):
    label = {"type": "mcp", "server_label": "c", "server_url": calculator}
    offered: Json = {"tools": [label | {"require_approval": "never"}]}
    if api == "messages":
        offered = {"mcp_servers": [{"type": "url", "name": "c", "url": calculator}]}
        offered["tools"] = [{"type": "mcp_toolset", "mcp_server_name": "c"}]
    expressions = ("6*7", "sqrt(16)+1", "import os")
    turns = [call(CALCULATE, {"expression": each}) for each in expressions]
    gateway.backend.turns = [Script((text,)) for text in (*turns, "Done.")]
    body = body_of(api, "go", **offered)
    reply = kit.read(api, await gateway.ask(body, path=PATHS[api], within=120))
    *computed, failed = (each.result for each in reply.ran)
    assert computed == ["42", "5.0"]
    assert "rror" in failed
