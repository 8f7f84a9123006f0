"""Codex CLI and the programs of `examples/` against a gateway whose backend answers by script."""

import asyncio
import json
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.support.agents.agent_cli import run_codex
from tests.support.effort import by_turns
from tests.support.servers.gateway_process import MASTER_KEY
from tests.support.servers.mcp_shop import CATALOGUE_SERVER
from tests.support.servers.script import Script, call
from toolgate_core.errors import ContextLengthExceeded


@by_turns(0, one_in=2)
def test_codex_runs_a_command_and_reads_its_result(gateway, backend, tmp_path):
    command = {"cmd": "echo 'it is made' > made.txt && cat made.txt"}
    backend.turns += [
        Script(
            ("<think>\nA file, then.\n</think>\n\nI run it.\n" + call("exec_command", command),)
        ),
        Script(("All is done.",)),
    ]
    run = run_codex(gateway, MASTER_KEY, tmp_path, "Make a file.")
    assert not backend.turns, run
    [executed] = run.items("command_execution")
    assert executed["exit_code"] == 0
    assert (run.folder / "made.txt").read_text() == "it is made\n"
    said = [item["text"] for item in run.items("agent_message")]
    assert said == ["I run it.", "All is done."]
    assert run.events[-1]["type"] == "turn.completed"
    assert run.events[-1]["usage"]["output_tokens"] > 0

    first, second = backend.messages(0), backend.messages(1)
    assert first[-1] == {"role": "user", "content": [{"type": "text", "text": "Make a file."}]}
    assert second[: len(first)] == first
    turn, result = second[len(first) :]
    assert turn["reasoning_content"] == "A file, then."
    assert turn["tool_calls"][0]["function"]["name"] == "exec_command"
    assert result["role"] == "tool"
    assert "it is made" in str(result["content"])


@pytest.mark.slow
def test_codex_calls_a_tool_of_a_namespace(gateway, backend, tmp_path):
    backend.turns += [
        Script((call("multi_agent_v1.close_agent", {"target": "nobody"}),)),
        Script(("There is nobody.",)),
    ]
    run = run_codex(gateway, MASTER_KEY, tmp_path, "Close it.")
    assert not backend.turns, run
    assert [item["text"] for item in run.items("agent_message")] == ["There is nobody."]
    turn, result = backend.messages(1)[-2:]
    assert turn["tool_calls"][0]["function"]["name"] == "multi_agent_v1.close_agent"
    assert "invalid agent id nobody" in str(result["content"])


@pytest.mark.slow
def test_codex_runs_two_commands_of_one_turn(gateway, backend, tmp_path):
    calls = [call("exec_command", {"cmd": f"echo {n} > {n}.txt; echo made {n}"}) for n in "ab"]
    backend.turns += [Script(("\n".join(calls),)), Script(("Both.",))]
    run = run_codex(gateway, MASTER_KEY, tmp_path, "Make two files.")
    assert not backend.turns, run
    assert {path.name for path in run.folder.iterdir()} == {"a.txt", "b.txt"}
    turn, *results = backend.messages(1)[-3:]
    assert len(turn["tool_calls"]) == 2
    for made, result in zip(("made a", "made b"), results, strict=True):
        assert made in str(result["content"])


@pytest.mark.slow
def test_codex_stops_at_a_refusal(gateway, backend, tmp_path):
    error = {"message": "Too long.", "type": "invalid_request_error", "code": "prompt_too_long"}
    backend.turns.append(Script((), error_status=400, error=error))
    run = run_codex(gateway, MASTER_KEY, tmp_path, "Anything.")
    assert run.events[-1]["type"] == "turn.failed"
    assert "Too long." in str(run.events[-1])


@by_turns(1, one_in=2)
def test_codex_never_runs_a_cut_call(gateway, backend, tmp_path):
    written = call("exec_command", {"cmd": "touch made.txt", "login": False})
    cut = written[: written.index(', "login"')]
    backend.turns.append(Script((cut,), finish="length"))
    run = run_codex(gateway, MASTER_KEY, tmp_path, "Make a file.")
    assert not list(run.folder.iterdir())
    assert not run.items("command_execution")
    assert run.events[-1]["type"] == "turn.failed", run


PATCH = """\
*** Begin Patch
*** Add File: new.txt
+It's "made".
*** Update File: old.txt
@@
-before
+after \\ é
*** End Patch
"""


@pytest.mark.slow
def test_codex_applies_a_patch_of_its_custom_tool(gateway, backend, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "old.txt").write_text("before\n")
    backend.turns += [Script((call("apply_patch", {"input": PATCH}),)), Script(("Applied.",))]
    run = run_codex(gateway, MASTER_KEY, tmp_path, "Patch it.", in_catalog=True)
    assert not backend.turns, run
    assert (work / "new.txt").read_text() == 'It\'s "made".\n'
    assert (work / "old.txt").read_text() == "after \\ é\n"
    [change] = run.items("file_change")
    assert change["status"] == "completed"
    turn, result = backend.messages(1)[-2:]
    function = turn["tool_calls"][0]["function"]
    assert (function["name"], json.loads(function["arguments"])) == (
        "apply_patch",
        {"input": PATCH},
    )
    assert "Success" in str(result["content"])


@pytest.mark.slow
def test_codex_finds_and_calls_one_of_many_tools(gateway, backend, tmp_path):
    options = [
        part
        for name, value in CATALOGUE_SERVER.items()
        for part in ("-c", f"mcp_servers.shop.{name}={json.dumps(value)}")
    ]
    found = "mcp__shop.lookup_3"
    backend.turns += [
        Script((call("tool_search", {"query": "lookup_3", "limit": 1}),)),
        Script((call(found, {"id": 7}),)),
        Script(("It is found.",)),
    ]
    run = run_codex(gateway, MASTER_KEY, tmp_path, "Look it up.", *options, in_catalog=True)
    assert not backend.turns, run
    [called] = run.items("mcp_tool_call")
    assert called["status"] == "completed"
    assert "lookup_3 found record 7." in str(called["result"])
    assert [item["text"] for item in run.items("agent_message")] == ["It is found."]
    listed = backend.listed_tools(0)
    assert "tool_search" in listed
    assert "lookup" not in str(listed)
    assert [backend.listed_tools(at) for at in (1, 2)] == [listed] * 2
    assert [backend.callable_tools(at) for at in range(3)] == [listed, *([[*listed, found]] * 2)]
    assert found in str(backend.messages(1)[-1]["content"])


@pytest.mark.slow
def test_codex_compacts_its_context_in_a_request_of_its_own(gateway, backend, tmp_path):
    backend.turns += [
        Script((call("exec_command", {"cmd": "echo made"}),)),
        Script(("The summary: it is made.",)),
        Script(("All is done.",)),
    ]
    limit = ("-c", "model_auto_compact_token_limit=5")
    run = run_codex(gateway, MASTER_KEY, tmp_path, "Make it.", *limit, in_catalog=True)
    assert not backend.turns, run
    assert [item["text"] for item in run.items("agent_message")] == ["All is done."]
    assert backend.messages(1)[-2]["role"] == "tool"
    assert "The summary: it is made." in str(backend.messages(2)[-1]["content"])
    assert "tool" not in [message["role"] for message in backend.messages(2)]


@pytest.mark.slow
def test_codex_with_its_own_provider_runs_a_command(gateway, backend, tmp_path):
    """It asks for a WebSocket first, and uses HTTP after the 426. Its items have members of
    OpenAI's own."""
    backend.turns += [
        Script((call("exec_command", {"cmd": "echo made"}),)),
        Script(("All is done.",)),
    ]
    run = run_codex(gateway, MASTER_KEY, tmp_path, "Make it.", built_in=True)
    assert not backend.turns, run
    assert [item["text"] for item in run.items("agent_message")] == ["All is done."]
    assert "made" in str(backend.messages(1)[-1]["content"])
    assert "internal_chat_message" not in str(backend.messages(1))


@pytest.mark.slow
@pytest.mark.parametrize("built_in", [False, True], ids=["HTTP", "WebSocket refused"])
def test_codex_compacts_after_a_prompt_that_was_too_long(gateway, backend, tmp_path, built_in):
    """It recognises the error, and compacts before the next turn: with its own provider by a
    `compaction_trigger`."""
    too_long = ContextLengthExceeded.of_tokens(60_000).body()["error"]
    backend.turns += [Script(("One.",)), Script((), error_status=400, error=too_long)]
    asked = partial(run_codex, gateway, MASTER_KEY, tmp_path, built_in=built_in)
    assert asked("First.", in_catalog=True).events[-1]["type"] == "turn.completed"
    failed = asked("Second.", "resume", "--last", in_catalog=True)
    assert "ran out of room" in str(failed.events[-1]), failed
    backend.turns += [Script(("The summary: one.",)), Script(("Three.",))]
    run = asked("Third.", "resume", "--last", in_catalog=True)
    assert not backend.turns, run
    assert [item["text"] for item in run.items("agent_message")] == ["Three."]
    users = [str(each["content"]) for each in backend.messages() if each["role"] == "user"]
    assert any("The summary: one." in text for text in users[:-1])
    assert "One." not in str(backend.messages())


EXAMPLES = Path(__file__).parents[4] / "examples"
CITIES = ("Oslo", "Bern", "Rome", "Lima")


async def test_early_tools_runs_every_tool_both_ways(gateway, backend):
    calls = "\n".join(call("get_weather", {"city": city}) for city in CITIES)
    backend.turns += [Script((calls,), pause=0.001) for _ in range(2)]
    command = [str(EXAMPLES / "early_tools.py"), f"{gateway}/v1", MASTER_KEY, "tiny", "0.01"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    late, early = printed.decode().splitlines()
    assert late.startswith("4 tools after the stream: ")
    assert early.startswith("4 tools during the stream: ")
