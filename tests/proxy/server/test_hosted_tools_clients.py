"""Client libraries and a published MCP server: the tools that the gateway runs, and those that the
classes of SDKs run. Coding agents, whose conversation outgrows the context of the model."""

import asyncio
import json
import os
from contextlib import asynccontextmanager
from functools import partial

import anthropic
import pytest
from anthropic.tools.memory import BetaAsyncLocalFilesystemMemoryTool

from tests.proxy.kit import beside
from tests.proxy.server import kit
from tests.proxy.server.kit import STREAM
from tests.support.agents import agent_cli
from tests.support.agents.client_packages import CLIENTS, client_python, mcp_python, node_folder
from tests.support.agents.working_model import DONE, FINISHED, RECORD, TASK, WorkingModel
from tests.support.effort import rotating
from tests.support.litellm.mcp import LOOKUP, ran, serving
from tests.support.litellm.own_route import MASTER, PATHS, body_of
from tests.support.servers.fake_backend import INFO
from tests.support.servers.loopback import served
from tests.support.servers.script import Script, call
from toolgate_proxy.app import Gateway as App
from toolgate_proxy.features.mcp.responses import DENIED
from toolgate_proxy.server.request_scope import RequestScope

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


def patch(kind, **more):
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


def in_python(program):
    return [str(client_python()), str(CLIENTS / program)]


def in_node(program):
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


def results(gateway):
    return [
        str(message["content"])
        for at in range(len(gateway.backend.requests))
        for message in gateway.backend.messages(at)
        if message["role"] == "tool"
    ]


@rotating("name", [*PROGRAMS, CLAUDE], one_in=8)
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
        output, _ = await asyncio.wait_for(program.communicate(), agent_cli.RUN_SECONDS)
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


async def claude_code_searches_the_web(gateway, folder):
    """Its tool `WebSearch` is a request of its own, with the web search of the Messages API."""
    texts = (call("WebSearch", {"query": "news"}), *SEARCH[:2], "Paint dries.")
    gateway.backend.turns += [Script((text,)) for text in texts]
    options = ("--tools", "WebSearch", "--allowedTools", "WebSearch")
    async with served(App(gateway.host)) as url:
        run = await asyncio.to_thread(
            agent_cli.run_claude, url, MASTER, folder, "Search.", *options
        )
    assert run.result["subtype"] == "success", run
    assert run.result["result"] == "Paint dries."
    assert not gateway.backend.turns, run
    [result] = run.blocks("tool_result")
    assert PAGE["url"] in str(result["content"])


COMMANDS = beside(__file__)["memory"]


@STREAM
async def test_the_memory_tool_of_anthropics_sdk(gateway, tmp_path, stream):
    gateway.backend.turns += [Script((call("memory", each),)) for each in COMMANDS]
    gateway.backend.turns.append(Script(("I will remember.",)))
    tool = BetaAsyncLocalFilesystemMemoryTool(base_path=str(tmp_path))
    async with served(App(gateway.host)) as url:
        client = anthropic.AsyncAnthropic(base_url=url, auth_token=MASTER, max_retries=0)
        runner = client.beta.messages.tool_runner(
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
    offered = {"tools": [label | {"require_approval": "never"}]}
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


# --- coding agents whose conversation is longer than the context of the model ---------------------

WINDOW = 32_768
STEPS, TURNS = 20, 3
"""Commands for each message of the user, and such messages. Their results alone are 54,000
tokens."""


@asynccontextmanager
async def serving_a_window(gateway):
    """The URL of the gateway in this process, which knows the window of its model."""
    limits = INFO.limits.model_copy(update={"max_model_len": WINDOW})
    gateway.backend.info = INFO.model_copy(update={"limits": limits})
    gateway.backend.scripts["hi"] = Script(("Hello there",))
    await gateway.ask({"model": "tiny", "messages": [{"role": "user", "content": "hi"}]})
    async with served(RequestScope(gateway._app)) as url:
        yield url


def claude(url, folder, task, resumed):
    options = ["--tools", "Bash", "--allowedTools", "Bash", *(["--continue"] if resumed else [])]
    run = agent_cli.run_claude(url, MASTER, folder, task, *options)
    assert run.result["subtype"] == "success", run
    return str(run.result["result"])


def codex(runs, url, folder, task, resumed):
    options = ["resume", "--last"] if resumed else []
    run = runs(url, MASTER, folder, task, *options)
    assert run.events[-1]["type"] == "turn.completed", run
    return str(run.items("agent_message")[-1]["text"])


def opencode(url, folder, task, resumed):
    run = agent_cli.run_opencode(url, MASTER, folder, task, *(["--continue"] if resumed else []))
    assert run.texts, run
    return run.texts[-1]


IN_CONFIGURATION = ("-c", f"model_context_window={WINDOW}",
                    "-c", f"model_auto_compact_token_limit={WINDOW * 3 // 4}")  # fmt: skip


def codex_of_openai(url, key, folder, task, *options):
    """With Codex's own provider, and the window in its configuration."""
    return agent_cli.run_codex(url, key, folder, task, *IN_CONFIGURATION, *options, built_in=True)


AGENTS = {
    "claude": claude,
    "codex": partial(codex, agent_cli.launch_codex),
    "codex-openai": partial(codex, codex_of_openai),
    "opencode": opencode,
}


@pytest.mark.slow
@pytest.mark.parametrize("client", AGENTS)
async def test_a_client_works_on_past_the_window(gateway, client, tmp_path):
    """Each step is taken once: no prompt lacks what was done before. No prompt is too long."""
    async with serving_a_window(gateway) as url:
        model = gateway.backend.model = WorkingModel(WINDOW)
        for turn in range(TURNS):
            goal = STEPS * (turn + 1)
            said = await asyncio.to_thread(
                AGENTS[client], url, tmp_path, TASK.format(goal), turn > 0
            )
            assert FINISHED.format(goal) in said
    steps = (tmp_path / "work" / RECORD).read_text().splitlines()
    assert steps == [DONE.format(step + 1) for step in range(STEPS * TURNS)]
    assert model.summaries
    assert not model.refused
