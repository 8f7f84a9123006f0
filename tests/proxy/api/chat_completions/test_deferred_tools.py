"""Tools with `defer_loading` in chat completions, which results and system messages add."""

from __future__ import annotations

from typing import Any

import pytest

from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import InvalidRequest, UnknownTool
from toolgate_proxy.api.chat_completions.surface import ChatCompletions

SCHEMA = {"type": "object", "properties": {"room": {"type": "string"}}}
HI = {"role": "user", "content": "Close the valve."}
CALL = {
    "role": "assistant",
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
    ],
}
REFERENCE = {"type": "tool_reference", "tool_name": "close_valve"}


def function(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": SCHEMA, **more}}


TOOLS = [function("search"), {**function("close_valve"), "defer_loading": True}]


def parsed(*messages: Any, **params: Any) -> ChatRequest:
    body = {"model": "tiny", "messages": [*messages], "tools": TOOLS, **params}
    return ChatCompletions().parse(body, model="tiny")


def names(asked: ChatRequest) -> list[str]:
    return [tool.name for tool in asked.tools]


def result(*parts: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "c1", "content": [*parts]}


def system(kind: str, tool: Any) -> dict[str, Any]:
    return {"role": "system", "content": [{"type": kind, "tool": tool}]}


@pytest.mark.parametrize(
    "tools",
    [TOOLS, [function("search"), function("close_valve", defer_loading=True)]],
    ids=["of the tool", "of the function"],
)
def test_a_deferred_tool_is_offered_from_where_a_result_names_it(tools: Any) -> None:
    assert names(parsed(HI, tools=tools)) == ["search"]
    asked = parsed(HI, CALL, result(REFERENCE), tools=tools)
    assert names(asked) == ["search", "close_valve"]
    assert [tool.name for tool in asked.prompt_tools] == ["search"]
    assert asked.messages[-1]["content"] == [
        {"type": "tool_definitions", "tools": [function("close_valve")]}
    ]


def test_a_reference_may_have_the_name_of_vllm_s_field() -> None:
    asked = parsed(HI, CALL, result({"type": "tool_reference", "name": "close_valve"}))
    assert names(asked) == ["search", "close_valve"]


def test_an_unknown_reference_is_left_out() -> None:
    asked = parsed(HI, CALL, result({"type": "tool_reference", "tool_name": "gone"}))
    assert names(asked) == ["search"]
    assert asked.messages[-1]["content"] == [{"type": "text", "text": "[tool_reference left out]"}]


def test_system_messages_add_and_remove_tools() -> None:
    addition = system("tool_addition", {"type": "tool_reference", "name": "close_valve"})
    asked = parsed(HI, addition)
    assert names(asked) == ["search", "close_valve"]
    assert asked.messages[-1]["role"] == "system"
    assert asked.messages[-1]["content"][-1]["tools"] == [function("close_valve")]
    removal = system("tool_removal", {"type": "tool_reference", "name": "search"})
    assert names(parsed(HI, addition, removal)) == ["close_valve"]
    inline = {"type": "tool_definition", "definition": function("open_valve")}
    assert names(parsed(HI, system("tool_addition", inline))) == ["search", "open_valve"]


def test_changes_at_the_beginning_are_no_message_of_the_prompt() -> None:
    addition = system("tool_addition", {"type": "tool_reference", "name": "close_valve"})
    asked = parsed(addition, HI)
    assert [tool.name for tool in asked.prompt_tools] == ["search", "close_valve"]
    assert asked.messages == parsed(HI).messages
    assert asked.message_paths == ("messages[1]",)
    with pytest.raises(InvalidRequest) as error:
        parsed(addition)
    assert error.value.param == "messages"


@pytest.mark.parametrize("form", ["tool", "allowed"])
def test_a_choice_of_a_tool_that_was_not_found_is_refused(form: str) -> None:
    named = {"type": "function", "function": {"name": "close_valve"}}
    allowed = {"mode": "required", "tools": [named]}
    choice = named if form == "tool" else {"type": "allowed_tools", "allowed_tools": allowed}
    with pytest.raises(UnknownTool) as error:
        parsed(HI, tool_choice=choice)
    assert error.value.param == "tool_choice"
    assert names(parsed(HI, CALL, result(REFERENCE), tool_choice=choice))[-1] == "close_valve"


def test_defer_loading_must_be_true_or_false() -> None:
    with pytest.raises(InvalidRequest) as error:
        parsed(HI, tools=[{**function("search"), "defer_loading": 1}])
    assert error.value.param == "tools[0].defer_loading"
    assert names(parsed(HI, tools=[{**function("search"), "defer_loading": False}])) == ["search"]
