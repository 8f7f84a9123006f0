"""Codex CLI against the whole stack, with forced calls: a random model's commands are not run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.gateway.clients.adding_proxy import adding_proxy
from tests.gateway.servers import Gateway
from tests.support.agents.agent_cli import run_codex
from tests.support.apis.read_responses import read_events
from tests.support.apis.responses_api import accumulated


def test_codex_calls_a_tool_and_reads_its_result(
    gateway: Gateway, bias: dict[str, float], tmp_path: Path
) -> None:
    common: dict[str, Any] = {"logit_bias": bias, "max_output_tokens": 400, "seed": 3}
    view: dict[str, Any] = {"tool_choice": {"type": "function", "name": "view_image"}}
    added = [common | view, common | {"tool_choice": "none"}]
    with adding_proxy(gateway.url, added) as proxy:
        run = run_codex(
            proxy.url, gateway.key, tmp_path, "Look.", in_catalog=True, sandbox="read-only"
        )
    assert run.events[-1]["type"] == "turn.completed", (run, proxy.answers)
    first, second = [read_events(answer) for answer in proxy.answers]
    [call] = [item for item in accumulated(first) if item["type"] == "function_call"]
    assert call["name"] == "view_image"
    returned = {item["type"]: item for item in proxy.bodies[1]["input"]}
    assert returned["function_call"]["arguments"] == call["arguments"]
    assert returned["function_call_output"]["call_id"] == call["call_id"]
    assert returned["function_call_output"]["output"]
    text = "".join(
        part["text"]
        for item in accumulated(second)
        if item["type"] == "message"
        for part in item["content"]
    )
    assert "".join(item["text"] for item in run.items("agent_message")).strip() == text.strip()
