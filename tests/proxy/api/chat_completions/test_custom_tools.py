"""Custom tools in chat completions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessageCustomToolCall

from tests.support.apis.chat_events import answer_to, events, fed
from tests.support.servers.script import call
from toolgate_core.chat_request import AllowedTools, ChatRequest, NamedTool
from toolgate_core.errors import InvalidRequest
from toolgate_proxy.api.chat_completions.chunks import Chunks
from toolgate_proxy.api.chat_completions.request import parse_request
from toolgate_proxy.api.chat_completions.response import WholeResponse

TEXT = 'say "hi" \\ to\n\tthem 😀 and all the others, one by one'
SHELL = {"type": "custom", "custom": {"name": "shell"}}
LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def parsed(messages: Any = None, **params: Any) -> ChatRequest:
    messages = messages or [{"role": "user", "content": "hi"}]
    return parse_request({"model": "tiny", "messages": messages, **params}, model="tiny")


@pytest.mark.parametrize("logprobs", [False, True])
def test_streamed_and_whole_calls_have_the_same_input(logprobs: bool) -> None:
    asked = parsed(tools=[SHELL, LOOK])
    answer = answer_to(asked)
    chunks, whole = Chunks(answer), WholeResponse(answer)
    text = call("shell", {"input": TEXT}) + "\n" + call("look", {})
    pieces = fed(answer, events(text, logprobs=logprobs))
    whole.add(pieces)
    message = whole.body()["choices"][0]["message"]
    calls: list[dict[str, Any]] = []
    for chunk in chunks.from_events(pieces):
        for delta in chunk["choices"][0]["delta"].get("tool_calls", ()):
            if "id" in delta:
                calls.append({key: value for key, value in delta.items() if key != "index"})
            elif "custom" in delta:
                calls[delta["index"]]["custom"]["input"] += delta["custom"]["input"]
            else:
                calls[delta["index"]]["function"]["arguments"] += delta["function"]["arguments"]
    assert calls == message["tool_calls"]
    assert [each["type"] for each in calls] == ["custom", "function"]
    assert calls[0]["custom"] == {"name": "shell", "input": TEXT}
    ChatCompletionMessageCustomToolCall.model_validate(calls[0], strict=True)


def test_calls_of_the_history_become_calls_of_the_function_that_the_model_sees() -> None:
    custom = {"id": "c1", "type": "custom", "custom": {"name": "shell", "input": 'a "b"'}}
    asked = parsed(
        [
            {"role": "assistant", "content": None, "tool_calls": [custom]},
            {"role": "tool", "tool_call_id": "c1", "content": "done"},
        ]
    )
    assert asked.messages[0]["tool_calls"] == [
        {
            "id": "c1",
            "type": "function",
            "function": {"name": "shell", "arguments": '{"input": "a \\"b\\""}'},
        }
    ]


@pytest.mark.parametrize(
    ("custom", "path"),
    [(None, "custom"), ({"input": "a"}, "custom.name")],
)
def test_an_invalid_call_of_the_history_is_refused(custom: Any, path: str) -> None:
    entry = {"id": "c1", "type": "custom", "custom": custom}
    with pytest.raises(InvalidRequest) as raised:
        parsed([{"role": "assistant", "content": None, "tool_calls": [entry]}])
    assert raised.value.param == f"messages[0].tool_calls[0].{path}"


def test_tool_choice_can_name_a_custom_tool() -> None:
    assert parsed(tools=[SHELL], tool_choice=SHELL).tool_choice == NamedTool("shell")
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [SHELL, LOOK]}}
    asked = parsed(tools=[SHELL, LOOK], tool_choice=allowed)
    assert asked.tool_choice == AllowedTools("auto", ("shell", "look"))


def test_a_named_call_ends_with_stop() -> None:
    asked = replace(parsed(tools=[SHELL]), tool_choice=NamedTool("shell"))
    answer = answer_to(asked)
    whole = WholeResponse(answer)
    whole.add(fed(answer, events(call("shell", {"input": "ls"}))))
    assert whole.body()["choices"][0]["finish_reason"] == "stop"
