"""Claude Code, and a session of the OpenAI Agents SDK, against a running gateway whose backend
answers by script.

The package of the Claude Agent SDK contains a newer Claude Code.
"""

import json

import pytest

from tests.support.agents.agent_cli import run_claude
from tests.support.agents.client_packages import bundled_claude, run_program
from tests.support.servers.gateway_process import MASTER_KEY
from tests.support.servers.mcp_shop import CATALOGUE_SERVER
from tests.support.servers.script import Script, call
from toolgate_proxy.features.compaction.compacted import shown

pytestmark = pytest.mark.slow
TOOLS = ("--allowedTools", "Bash,Read,Write")


def test_claude_runs_a_command_and_reads_a_file(gateway, backend, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "notes.txt").write_text("the notes\n")
    backend.turns += [
        Script(("I run it.\n" + call("Bash", {"command": "echo 'it is made' | tee made.txt"}),)),
        Script((call("Read", {"file_path": str(work / "notes.txt")}),)),
        Script(("All is done.",)),
    ]
    run = run_claude(gateway, MASTER_KEY, tmp_path, "Make a file.", *TOOLS)
    assert not backend.turns, run
    assert (work / "made.txt").read_text() == "it is made\n"
    assert [block["name"] for block in run.blocks("tool_use")] == ["Bash", "Read"]
    made, read = run.blocks("tool_result")
    assert "it is made" in str(made["content"])
    assert "the notes" in str(read["content"])
    assert run.result["subtype"] == "success"
    assert run.result["result"] == "All is done."
    assert run.result["usage"]["output_tokens"] > 0

    first, second = backend.messages(0), backend.messages(1)
    turn, result = second[len(first) :]
    assert turn["content"] == "I run it."
    assert turn["tool_calls"][0]["function"]["name"] == "Bash"
    assert result["role"] == "tool"
    assert "it is made" in str(result["content"])


def test_claude_runs_two_commands_of_one_turn(gateway, backend, tmp_path):
    calls = [call("Bash", {"command": f"echo {n} > {n}.txt; echo made {n}"}) for n in "ab"]
    backend.turns += [Script(("\n".join(calls),)), Script(("Both.",))]
    run = run_claude(gateway, MASTER_KEY, tmp_path, "Make two files.", *TOOLS)
    assert not backend.turns, run
    assert {path.name for path in run.folder.iterdir()} >= {"a.txt", "b.txt"}
    turn, *results = backend.messages(1)[-3:]
    assert len(turn["tool_calls"]) == 2
    assert [call["id"] for call in turn["tool_calls"]] == [r["tool_call_id"] for r in results]


def test_claude_never_runs_a_cut_call(gateway, backend, tmp_path):
    written = call("Bash", {"command": "touch made.txt", "description": "Makes it"})
    cut = Script((written[: written.index(', "description"')],), finish="length")
    # Claude Code asks to go on after a cut answer, some times.
    backend.turns += [cut, Script(("It was too long.",))]
    run = run_claude(gateway, MASTER_KEY, tmp_path, "Make a file.", *TOOLS)
    assert not (run.folder / "made.txt").exists()
    assert not run.blocks("tool_use"), run


def test_claude_shows_the_gateways_error(gateway, backend, tmp_path):
    error = {"message": "Too odd.", "type": "invalid_request_error", "code": "invalid_request"}
    backend.turns.append(Script((), error_status=400, error=error))
    run = run_claude(gateway, MASTER_KEY, tmp_path, "Anything.")
    assert run.result["is_error"]
    assert "Too odd." in run.result["result"]


def test_the_key_is_in_no_file_of_the_user(gateway, backend, tmp_path):
    backend.turns.append(Script(("Hello.",)))
    run = run_claude(gateway, MASTER_KEY, tmp_path, "Say hello.")
    assert run.result["result"] == "Hello."
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if MASTER_KEY.encode() in path.read_bytes()]


def test_a_program_with_a_tool_of_its_own_succeeds(gateway, backend, tmp_path):
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
    assert len(run_program("use_claude_agent.py", tmp_path, gateway, MASTER_KEY, **more)) == 2
    assert not backend.turns
    assert not (tmp_path / "made.txt").exists()
    calls = [
        function["function"]["name"]
        for message in backend.messages()
        for function in message.get("tool_calls", ())
    ]
    assert calls == ["ToolSearch", "mcp__own__set_tags", "Bash"]
    assert "mcp__own__set_tags" not in backend.callable_tools(0)


def test_claude_finds_and_calls_one_of_many_tools(gateway, backend, tmp_path):
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


TEXTS = ("One.", "Two.", "They counted.", "Three.")


def test_a_session_compacts_its_conversation(gateway, backend, tmp_path):
    backend.turns += [Script((text,)) for text in TEXTS * 2]
    checked = run_program("use_agents_compaction.py", tmp_path, gateway, MASTER_KEY)
    assert checked == ["checked: input: Three.", "checked: previous_response_id: Three."]
    assert not backend.turns
    for at in (3, 7):
        texts = [str(message["content"]) for message in backend.messages(at)]
        assert shown("They counted.") in texts
        assert "One." not in str(texts)
        assert texts[-1] == "Third."
