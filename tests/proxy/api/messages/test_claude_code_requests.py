"""Requests as two versions of Claude Code send them, with shortened texts: the first of a
conversation, one with results of calls, one with an image, one of a subagent, one of its web
search, without thinking, and with tools that are loaded later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.apis.chat_events import events
from tests.support.apis.messages_api import SEAL, accumulated, streamed_and_whole
from tests.support.servers.script import call
from toolgate_core.chat_request import ChatRequest
from toolgate_proxy.api.messages.conversation.signature import sign
from toolgate_proxy.api.messages.surface import Messages
from toolgate_proxy.api.surface import Client

BODIES = Path(__file__).parent / "claude_code"
DEFERRED = "2.1.331-tool_search"
SEARCHING = ("2.1.197-web_search", "2.1.331-web_search")
NAMES = sorted(path.stem for path in BODIES.glob("*.json"))
TAKEN = [name for name in NAMES if name not in (DEFERRED, *SEARCHING)]
VERSIONS = sorted({name.partition("-")[0] for name in NAMES})


def recorded(name: str) -> dict[str, Any]:
    given = json.loads((BODIES / f"{name}.json").read_text())
    assert isinstance(given, dict)
    return given


def asked(name: str) -> ChatRequest:
    request = recorded(name)
    # The recorded signature is left out; the gateway that sends it again would know it.
    for message in request["body"]["messages"]:
        for block in message["content"]:
            if isinstance(block, dict) and block["type"] == "thinking":
                block["signature"] = sign(SEAL, block["thinking"])
    client = Client(headers={"anthropic-beta": request["anthropic-beta"]}, seal=SEAL)
    return Messages().parse(request["body"], model="tiny", client=client)


@pytest.mark.parametrize("name", TAKEN)
def test_a_request_gets_an_answer(name: str) -> None:
    request = asked(name)
    body = recorded(name)["body"]
    assert [tool.name for tool in request.tools] == [tool["name"] for tool in body["tools"]]
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
def test_results_of_calls_follow_their_calls(version: str) -> None:
    _, *messages = asked(f"{version}-results").messages
    turn = next(message for message in messages if message["role"] == "assistant")
    assert turn["reasoning_content"] == "…"
    calls = [each["function"]["name"] for each in turn["tool_calls"]]
    assert calls == ["Bash", "Read"]
    results = [message for message in messages if message["role"] == "tool"]
    assert [each["tool_call_id"] for each in results] == [each["id"] for each in turn["tool_calls"]]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_image_of_a_result_is_an_image_of_the_prompt(version: str) -> None:
    request = asked(f"{version}-image")
    assert request.images
    assert "image_url" in str(request.messages[-1])


@pytest.mark.parametrize("name", SEARCHING)
def test_a_web_search_is_left_out(name: str) -> None:
    request = asked(name)
    assert (request.tools, request.omitted_tools) == ((), ("web_search_20250305",))


def test_deferred_tools_are_not_offered() -> None:
    request = asked(DEFERRED)
    sent = recorded(DEFERRED)["body"]["tools"]
    names = [tool["name"] for tool in sent if not tool.get("defer_loading")]
    assert [tool.name for tool in request.tools] == names
    assert [tool.name for tool in request.prompt_tools] == names
    assert len(names) == len(sent) - 1
