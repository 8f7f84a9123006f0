"""Claude Code against the whole stack, with forced calls and two tools: the context of the model is
shorter than the prompt with all tools. A random model's commands are not run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.gateway.clients.adding_proxy import adding_proxy
from tests.gateway.servers import Gateway
from tests.support.agents.agent_cli import run_claude
from tests.support.apis.messages_api import accumulated
from tests.support.apis.read_responses import read_events

TOOLS = ("Read", "Grep")


def test_claude_calls_two_tools_and_reads_their_results(
    gateway: Gateway, bias: dict[str, float], tmp_path: Path
) -> None:
    common: dict[str, Any] = {
        "logit_bias": bias,
        "max_tokens": 800,
        "reasoning_budget": 20,
        "seed": 3,
    }
    choices = [*({"type": "tool", "name": name} for name in TOOLS), {"type": "none"}]
    offered = ",".join(TOOLS)
    options = ("--tools", offered, "--allowedTools", offered, "--system-prompt", "Use the tools.")
    with adding_proxy(gateway.url, [common | {"tool_choice": each} for each in choices]) as proxy:
        run = run_claude(proxy.url, gateway.key, tmp_path, "Read, then search.", *options)
    assert (run.result["subtype"], run.result["is_error"]) == ("success", False), run
    answers = [accumulated(read_events(answer)) for answer in proxy.answers]
    assert [answer["stop_reason"] for answer in answers[:2]] == ["tool_use", "tool_use"]
    calls = [answer["content"][-1] for answer in answers[:2]]
    assert [call["name"] for call in calls] == [*TOOLS]
    executed = [(block["id"], block["input"]) for block in run.blocks("tool_use")]
    assert executed == [(call["id"], call["input"]) for call in calls]
    for answer, call, body in zip(answers, calls, proxy.bodies[1:], strict=False):
        turn, returned = body["messages"][-2:]
        assert [block["type"] for block in turn["content"]] == ["thinking", "tool_use"]
        assert turn["content"][0]["signature"] == answer["content"][0]["signature"]
        [result] = [block for block in returned["content"] if block["type"] == "tool_result"]
        assert result["tool_use_id"] == call["id"]
    text = "".join(block["text"] for block in answers[2]["content"] if block["type"] == "text")
    assert run.result["result"].strip() == text.strip()
