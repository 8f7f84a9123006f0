"""Client libraries with the tools that the gateway runs: an MCP server and a search engine."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from litellm.proxy import proxy_server

from tests.support.agents.agent_cli import RUN_SECONDS, run_claude
from tests.support.agents.client_packages import CLIENTS, client_python, node_folder
from tests.support.litellm.mcp import LOOKUP, ran
from tests.support.litellm.own_route import MASTER, Gateway
from tests.support.servers.loopback import served
from tests.support.servers.script import Script, call
from tests.support.servers.search_engine import SearchEngine, running
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


def in_python(program: str) -> list[str]:
    return [str(client_python()), str(CLIENTS / program)]


def in_node(program: str) -> list[str]:
    return ["node", str(node_folder() / program)]


Program = tuple[Callable[[str], list[str]], str, tuple[str, ...], tuple[str, ...]]
PROGRAMS: dict[str, Program] = {
    "agents": (in_python, "use_hosted_agents.py", (), (*MCP * 2, *APPROVED * 2, *SEARCH * 2)),
    "anthropic": (in_python, "use_hosted_anthropic.py", (), (*BOTH, *EDITS, SAID["last"])),
    "langchain": (in_python, "use_hosted_langchain.py", (), BOTH),
    "langchain-messages": (in_python, "use_hosted_langchain.py", ("messages",), BOTH),
    "vercel": (in_node, "use_hosted_vercel.mjs", (), BOTH),
    "vercel-messages": (in_node, "use_hosted_vercel.mjs", ("messages",), BOTH),
}
"""By name: what runs it, the program, its arguments, and what the model says in turn."""


@pytest.fixture
async def engine(gateway: Gateway) -> AsyncIterator[SearchEngine]:
    with running() as engine:
        engine.pages = [PAGE]
        params = {"search_provider": "searxng", "api_base": engine.url}
        proxy_server.llm_router.search_tools = [
            {"search_tool_name": "searx", "litellm_params": params}
        ]
        yield engine


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_client_uses_the_tools(
    gateway: Gateway, calls: Path, engine: SearchEngine, tmp_path: Path, name: str
) -> None:
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
    assert ran(calls) == [{"id": 7}] * (4 if name == "agents" else 2)
    assert engine.queries == [SAID["query"]] * 2
    results = [
        str(message["content"])
        for at in range(len(gateway.backend.requests))
        for message in gateway.backend.messages(at)
        if message["role"] == "tool"
    ]
    assert (f"{DENIED} {SAID['reason']}" in results) == (name == "agents")


async def test_claude_code_searches_the_web(
    gateway: Gateway, engine: SearchEngine, tmp_path: Path
) -> None:
    """Its tool `WebSearch` is a request of its own, with the web search of the Messages API."""
    texts = (call("WebSearch", {"query": "news"}), *SEARCH[:2], "Paint dries.")
    gateway.backend.turns += [Script((text,)) for text in texts]
    options = ("--tools", "WebSearch", "--allowedTools", "WebSearch")
    async with served(App(gateway.host)) as url:
        run = await asyncio.to_thread(run_claude, url, MASTER, tmp_path, "Search.", *options)
    assert run.result["subtype"] == "success", run
    assert run.result["result"] == "Paint dries."
    assert not gateway.backend.turns, run
    assert engine.queries == [SAID["query"]]
    [result] = run.blocks("tool_result")
    assert PAGE["url"] in str(result["content"])
