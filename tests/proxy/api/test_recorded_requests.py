"""Requests as versions of Claude Code and Codex send them, with shortened texts: the first of a
conversation, with results of calls, with an image, of a subagent, without thinking, with custom
tools, namespaces, web search, and tools that are loaded later or are an item of the input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.apis.chat_events import events
from tests.support.apis.messages_api import SEAL, accumulated, streamed_and_whole
from tests.support.servers.script import call
from toolgate_core.chat_request import ChatRequest
from toolgate_proxy.api.messages.conversation.signature import sign
from toolgate_proxy.api.surface import Client
from toolgate_proxy.api.surfaces import MESSAGES, RESPONSES

from .kit import Json, changes, names

BODIES = Path(__file__).parent / "claude_code"
DEFERRED = "2.1.331-tool_search"
SEARCHING = ("2.1.197-web_search", "2.1.331-web_search")
CLAUDE = sorted(path.stem for path in BODIES.glob("*.json"))
VERSIONS = sorted({name.partition("-")[0] for name in CLAUDE})


def recorded(name: str) -> Json:
    """Recorded signatures are left out; the gateway that sends them again would know them."""
    request: Json = json.loads((BODIES / f"{name}.json").read_text())
    for message in request["body"]["messages"]:
        for block in message["content"]:
            if isinstance(block, dict) and block["type"] == "thinking":
                block["signature"] = sign(SEAL, block["thinking"])
    return request


def of_claude(name: str) -> ChatRequest:
    request = recorded(name)
    client = Client(headers={"anthropic-beta": request["anthropic-beta"]}, seal=SEAL)
    return MESSAGES.parse(request["body"], model="tiny", client=client)


@pytest.mark.parametrize("name", [each for each in CLAUDE if each not in (DEFERRED, *SEARCHING)])
def test_a_request_of_claude_code_gets_an_answer(name):
    request, body = of_claude(name), recorded(name)["body"]
    assert names(request) == [tool["name"] for tool in body["tools"]]
    assert request.parallel_tool_calls
    assert request.sampling.max_tokens == 32_000
    assert (request.reasoning == "on") == ("thinking" in body)
    assert request.messages[0]["role"] == "system"
    assert "billing" not in str(request.messages)

    text = "Yes.\n" + call("Read", {"file_path": "/project/a"})
    thought = "<think>\nSo.\n</think>\n\n" if request.reasoning == "on" else ""
    made, whole = streamed_and_whole(request, events(thought + text))
    kinds = [block["type"] for block in whole["content"]]
    assert kinds == [*(["thinking"] if thought else []), "text", "tool_use"]
    assert whole["stop_reason"] == "tool_use"
    assert accumulated(made)["content"][-1]["input"] == {"file_path": "/project/a"}


@pytest.mark.parametrize("version", VERSIONS)
def test_results_and_images_of_claude_code_follow_their_calls(version):
    _, *messages = of_claude(f"{version}-results").messages
    turn = next(message for message in messages if message["role"] == "assistant")
    assert turn["reasoning_content"] == "…"
    assert [each["function"]["name"] for each in turn["tool_calls"]] == ["Bash", "Read"]
    results = [each["tool_call_id"] for each in messages if each["role"] == "tool"]
    assert results == [each["id"] for each in turn["tool_calls"]]
    shown = of_claude(f"{version}-image")
    assert shown.images
    assert "image_url" in str(shown.messages[-1])


@pytest.mark.parametrize("name", SEARCHING)
def test_a_web_search_is_left_out(name):
    request = of_claude(name)
    assert (request.tools, request.omitted_tools) == ((), ("web_search_20250305",))


def test_deferred_tools_are_not_offered():
    request = of_claude(DEFERRED)
    sent = recorded(DEFERRED)["body"]["tools"]
    eager = [tool["name"] for tool in sent if not tool.get("defer_loading")]
    assert names(request) == [tool.name for tool in request.prompt_tools] == eager
    assert len(eager) == len(sent) - 1


def codex(name: str) -> Json:
    body: Json = json.loads((BODIES.parent / "codex" / f"{name}.json").read_text())
    return body


def of_codex(name: str) -> ChatRequest:
    return RESPONSES.parse(codex(name), model="tiny")


@pytest.mark.parametrize(
    ("name", "offered"),
    [
        ("functions_and_namespace", {"exec_command", "multi_agent_v1.spawn_agent"}),
        ("0.142-functions_and_namespace", {"exec_command", "multi_agent_v1.spawn_agent"}),
        ("custom_tool_and_tool_search", {"apply_patch", "tool_search"}),
        ("0.142-results", {"apply_patch"}),
        ("0.169-results", {"apply_patch"}),
    ],
)
def test_tools_of_codex_are_offered_and_hosted_ones_left_out(name, offered):
    asked = of_codex(name)
    assert offered <= {*names(asked)}
    assert asked.omitted_tools == ("web_search",)
    assert asked.parallel_tool_calls == codex(name)["parallel_tool_calls"]
    for tool in asked.tools:
        if tool.name == "tool_search":
            assert tool.parameters["required"] == ["query"]


@pytest.mark.parametrize("version", ["0.142", "0.169"])
def test_results_of_codex_follow_their_calls(version):
    *_, turn, result = of_codex(f"{version}-results").messages
    [made] = turn["tool_calls"]
    assert made["function"]["name"] == "view_image"
    assert (result["role"], result["tool_call_id"]) == ("tool", made["id"])


def test_members_of_openais_own_are_left_out():
    asked, sent = of_codex("0.169-openai_base_url"), codex("0.169-openai_base_url")
    assert asked.messages == of_codex("0.169-results").messages
    member = "internal_chat_message_metadata_passthrough"
    assert changes(asked) == [
        ["left_out", f"input[{at}].{member}"] for at in range(len(sent["input"]))
    ]


def test_tools_at_the_beginning_of_the_input_are_the_tools_of_the_prompt():
    given, asked = codex("additional_tools"), of_codex("additional_tools")
    assert [tool.name for tool in asked.prompt_tools] == [
        tool["name"] if space["name"] == "functions" else f"{space['name']}.{tool['name']}"
        for space in given["input"][0]["tools"]
        for tool in space["tools"]
    ]
    assert {tool.namespace for tool in asked.tools} == {"", "clock", "collaboration"}
    assert asked.prompt_tools == asked.tools
    assert "tool_definitions" not in str(asked.messages)
