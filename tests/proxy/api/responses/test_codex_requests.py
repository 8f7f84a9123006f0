"""Requests as Codex CLI 0.169 sends them, with shortened texts: for a model that it does not know,
for one with custom tools and tool search, and for one whose tools are an item of the input. And,
of 0.142 as well, one with the result of a call. One is of Codex's own provider
(`openai_base_url`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolgate_proxy.api.responses.request import parse_request

BODIES = Path(__file__).parent / "codex"


def body(name: str) -> dict[str, Any]:
    given = json.loads((BODIES / f"{name}.json").read_text())
    assert isinstance(given, dict)
    return given


@pytest.mark.parametrize("name", ["functions_and_namespace", "0.142-functions_and_namespace"])
def test_namespaces_are_offered_and_hosted_tools_omitted(name: str) -> None:
    asked = parse_request(body(name), model="tiny")
    names = [tool.name for tool in asked.tools]
    assert "exec_command" in names
    assert "multi_agent_v1.spawn_agent" in names
    assert asked.omitted_tools == ("web_search",)
    assert asked.parallel_tool_calls == body(name)["parallel_tool_calls"]


def test_custom_tools_and_the_search_for_tools_are_offered() -> None:
    asked = parse_request(body("custom_tool_and_tool_search"), model="tiny")
    names = [tool.name for tool in asked.tools]
    assert "apply_patch" in names
    assert asked.omitted_tools == ("web_search",)
    [search] = [tool for tool in asked.tools if tool.name == "tool_search"]
    assert search.parameters["required"] == ["query"]


@pytest.mark.parametrize("version", ["0.142", "0.169"])
def test_results_of_calls_follow_their_calls(version: str) -> None:
    asked = parse_request(body(f"{version}-results"), model="tiny")
    *_, turn, result = asked.messages
    [call] = turn["tool_calls"]
    assert call["function"]["name"] == "view_image"
    assert (result["role"], result["tool_call_id"]) == ("tool", call["id"])
    assert "apply_patch" in [tool.name for tool in asked.tools]
    assert asked.omitted_tools == ("web_search",)


def test_members_of_openais_own_are_left_out() -> None:
    sent = body("0.169-openai_base_url")
    asked = parse_request(sent, model="tiny")
    assert asked.messages == parse_request(body("0.169-results"), model="tiny").messages
    member = "internal_chat_message_metadata_passthrough"
    assert [(change.kind, change.path) for change in asked.history_changes] == [
        ("left_out", f"input[{at}].{member}") for at in range(len(sent["input"]))
    ]


def test_tools_at_the_beginning_of_the_input_are_the_tools_of_the_prompt() -> None:
    given = body("additional_tools")
    asked = parse_request(given, model="tiny")
    names = [
        tool["name"] if space["name"] == "functions" else f"{space['name']}.{tool['name']}"
        for space in given["input"][0]["tools"]
        for tool in space["tools"]
    ]
    assert [tool.name for tool in asked.prompt_tools] == names
    assert {tool.namespace for tool in asked.tools} == {"", "clock", "collaboration"}
    assert asked.prompt_tools == asked.tools
    assert "tool_definitions" not in str(asked.messages)
