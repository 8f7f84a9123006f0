"""The Claude Agent SDK against a running gateway whose backend answers by script. The SDK's package
contains a newer Claude Code than that of `test_claude_code.py`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.agents.agent_cli import run_claude, run_program
from tests.support.agents.client_packages import anthropic_python, bundled_claude
from tests.support.litellm.routes import OWN_ROUTE_ONLY
from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.gateway_process import MASTER_KEY
from tests.support.servers.mcp_shop import CATALOGUE_SERVER
from tests.support.servers.script import Script, call

pytestmark = OWN_ROUTE_ONLY


def test_a_program_with_a_tool_of_its_own_succeeds(
    gateway: str, backend: FakeBackend, tmp_path: Path
) -> None:
    thought = "<think>\nTwo tags.\n</think>\n\nI set them.\n"
    search = {"query": "select:mcp__own__set_tags", "max_results": 1}
    backend.turns += [
        Script((thought + call("ToolSearch", search),)),
        Script((call("mcp__own__set_tags", {"tags": ["a", "b"]}),)),
        Script(("All is set.",)),
        Script((call("Bash", {"command": "touch made.txt"}),)),
        Script(("It was denied.",)),
    ]
    more = {
        "CLAUDE_CONFIG_DIR": str(tmp_path / ".claude"),
        "ANTHROPIC_BASE_URL": gateway,
        "ANTHROPIC_AUTH_TOKEN": MASTER_KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "0",
    }
    program = "use_claude_agent.py"
    run_program(anthropic_python(), program, tmp_path, gateway, checks=2, **more)
    assert not backend.turns
    assert not (tmp_path / "made.txt").exists()
    calls = [
        function["function"]["name"]
        for message in backend.messages()
        for function in message.get("tool_calls", ())
    ]
    assert calls == ["ToolSearch", "mcp__own__set_tags", "Bash"]
    assert "mcp__own__set_tags" not in backend.callable_tools(0)


def test_claude_finds_and_calls_one_of_many_tools(
    gateway: str, backend: FakeBackend, tmp_path: Path
) -> None:
    servers = {"mcpServers": {"shop": CATALOGUE_SERVER}}
    found = "mcp__shop__lookup_3"
    backend.turns += [
        Script((call("ToolSearch", {"query": f"select:{found}", "max_results": 1}),)),
        Script((call(found, {"id": 7}),)),
        Script(("It is found.",)),
    ]
    options = ("--mcp-config", json.dumps(servers), "--allowedTools", found)
    run = run_claude(
        gateway, MASTER_KEY, tmp_path, "Look it up.", *options, program=bundled_claude()
    )
    assert not backend.turns, run
    assert "lookup_3 found record 7." in str(run.blocks("tool_result")[-1]["content"])
    assert run.result["result"] == "It is found."
    listed = backend.listed_tools(0)
    assert "lookup" not in str(listed)
    assert [backend.listed_tools(at) for at in (1, 2)] == [listed] * 2
    assert [backend.callable_tools(at) for at in range(3)] == [listed, *([[*listed, found]] * 2)]
    assert found in str(backend.messages(1)[-1]["content"])
