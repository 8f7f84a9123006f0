"""Tools that the conversation adds and removes: they can be called from their place on, and the
prompt grows only at its end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.apis.messages_api import LOOK, WALK, parsed
from toolgate_core.chat_request import ChatRequest, NamedTool
from toolgate_core.errors import InvalidRequest, InvalidTools, UnknownTool

SEARCH = {"name": "ToolSearch", "input_schema": {"type": "object"}}
VALVE = {"type": "object", "properties": {"room": {"type": "string", "maxLength": 12}}}
CLOSE = {"name": "close_valve", "description": "Closes it.", "input_schema": VALVE}
OPEN = {"name": "open_valve", "input_schema": VALVE}
TOOLS = [SEARCH, LOOK, {**CLOSE, "defer_loading": True}, {**OPEN, "defer_loading": True}]
HI: dict[str, Any] = {"role": "user", "content": "Close the valve."}
SEARCHED: list[dict[str, Any]] = [
    HI,
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "toolu_1", "name": "ToolSearch", "input": {}}],
    },
]


def found(*names: str, **more: Any) -> dict[str, Any]:
    references = [{"type": "tool_reference", "tool_name": name} for name in names]
    block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": references, **more}
    return {"role": "user", "content": [block]}


def changed(kind: str, name: str) -> dict[str, Any]:
    block = {"type": kind, "tool": {"type": "tool_reference", "name": name}}
    return {"role": "system", "content": [block]}


def defined(definition: dict[str, Any]) -> dict[str, Any]:
    tool = {"type": "tool_definition", "definition": definition}
    return {"role": "system", "content": [{"type": "tool_addition", "tool": tool}]}


def names(asked: ChatRequest) -> list[str]:
    return [tool.name for tool in asked.tools]


def listed(asked: ChatRequest) -> list[str]:
    return [tool.name for tool in asked.prompt_tools]


def definition_of(tool: dict[str, Any]) -> dict[str, Any]:
    function = {"name": tool["name"], "parameters": tool["input_schema"]}
    if "description" in tool:
        function = {**function, "description": tool["description"]}
    return {"type": "function", "function": function}


def refused(*messages: Any, **params: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as error:
        parsed([*messages], **{"tools": TOOLS, **params})
    return error.value


def test_a_tool_that_a_result_names_can_be_called_and_is_shown_there() -> None:
    before = parsed(SEARCHED[:1], tools=TOOLS)
    assert names(before) == listed(before) == ["ToolSearch", "look"]
    asked = parsed([*SEARCHED, found("close_valve")], tools=TOOLS)
    assert names(asked) == ["ToolSearch", "look", "close_valve"]
    assert listed(asked) == ["ToolSearch", "look"]
    assert asked.messages[0] == before.messages[0]
    assert asked.messages[-1]["content"] == [
        {"type": "tool_definitions", "tools": [definition_of(CLOSE)]}
    ]
    assert asked.tools[-1].param == "tools[2].input_schema"


def test_a_tool_is_shown_once() -> None:
    again = [
        {"role": "assistant", "content": [{**SEARCHED[1]["content"][0], "id": "toolu_2"}]},
        found("close_valve", "open_valve", tool_use_id="toolu_2"),
    ]
    asked = parsed([*SEARCHED, found("close_valve"), *again], tools=TOOLS)
    assert names(asked) == ["ToolSearch", "look", "close_valve", "open_valve"]
    assert asked.messages[-1]["content"] == [
        {"type": "tool_definitions", "tools": [definition_of(OPEN)]},
        {"type": "text", "text": "These tools can be called: close_valve"},
    ]


def test_a_tool_that_the_client_has_no_more_is_left_out_of_a_result() -> None:
    asked = parsed([*SEARCHED, found("gone", "close_valve")], tools=TOOLS)
    assert names(asked) == ["ToolSearch", "look", "close_valve"]
    text, _ = asked.messages[-1]["content"]
    assert text == {"type": "text", "text": "[tool_reference left out]"}
    path = "messages[2].content[0].content[0]"
    assert [(each.kind, each.path) for each in asked.history_changes] == [("left_out", path)]


def test_a_system_message_adds_a_tool() -> None:
    asked = parsed([HI, changed("tool_addition", "close_valve")], tools=TOOLS)
    assert names(asked) == ["ToolSearch", "look", "close_valve"]
    assert listed(asked) == ["ToolSearch", "look"]
    assert asked.messages[-1]["role"] == "system"
    heading, shown = asked.messages[-1]["content"]
    assert "can be called from here on" in heading["text"]
    assert shown["tools"] == [definition_of(CLOSE)]


def test_a_system_message_removes_a_tool_and_adds_it_again() -> None:
    removal = [HI, changed("tool_removal", "look")]
    asked = parsed(removal, tools=TOOLS, tool_choice={"type": "any"})
    assert names(asked) == ["ToolSearch"]
    assert listed(asked) == ["ToolSearch", "look"]
    assert "can't be called any more: look" in asked.messages[-1]["content"]
    answer = {"role": "assistant", "content": "Well."}
    back = parsed([*removal, answer, HI, changed("tool_addition", "look")], tools=TOOLS)
    assert sorted(names(back)) == ["ToolSearch", "look"]
    assert "tool_definitions" not in str(back.messages)


def test_a_system_message_defines_a_tool() -> None:
    asked = parsed([HI, defined(CLOSE)], tools=[LOOK])
    assert names(asked) == ["look", "close_valve"]
    assert asked.tools[-1].param == "messages[1].content[0].tool.definition.input_schema"
    other = {**CLOSE, "input_schema": {"type": "object"}}
    answer = {"role": "assistant", "content": "Well."}
    replaced = parsed([HI, defined(CLOSE), answer, HI, defined(other)], tools=[LOOK])
    assert str(replaced.messages).count("tool_definitions") == 2
    assert replaced.tools[-1].definition == definition_of(other)
    same = parsed([HI, defined(CLOSE), answer, HI, defined(CLOSE)], tools=[LOOK])
    assert str(same.messages).count("tool_definitions") == 1


def test_changes_before_the_first_turn_are_changes_of_the_list() -> None:
    asked = parsed([changed("tool_addition", "close_valve"), HI], tools=TOOLS)
    assert names(asked) == listed(asked) == ["ToolSearch", "look", "close_valve"]
    assert asked.messages == parsed([HI]).messages


def test_tools_that_anthropic_s_search_has_found_can_be_called() -> None:
    references = [{"type": "tool_reference", "tool_name": "close_valve"}]
    blocks = [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "tool_search_tool_bm25",
         "input": {"query": "valve"}},
        {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": {
            "type": "tool_search_tool_search_result", "tool_references": references}},
    ]  # fmt: skip
    asked = parsed([HI, {"role": "assistant", "content": blocks}, HI], tools=TOOLS)
    assert names(asked) == ["ToolSearch", "look", "close_valve"]
    [result] = [each for each in asked.messages if each["role"] == "tool"]
    assert result["content"][0]["tools"] == [definition_of(CLOSE)]


def test_the_gateway_runs_the_search_of_the_api() -> None:
    name = "tool_search_tool_regex"
    asked = parsed([HI], tools=[{"type": f"{name}_20251119", "name": name}, *TOOLS])
    assert names(asked) == listed(asked) == [name, "ToolSearch", "look"]
    assert [*asked.gateway_tools] == [name]
    assert asked.omitted_tools == ()


def test_changes_of_a_tool_that_is_left_out_have_no_effect() -> None:
    web = {"type": "web_search_20260209", "name": "web_search"}
    asked = parsed([HI, changed("tool_removal", "web_search")], tools=[web, LOOK])
    assert names(asked) == ["look"]
    assert asked.messages == parsed([HI]).messages


def test_an_invalid_deferred_tool_is_an_error_when_it_is_added() -> None:
    broken = {**CLOSE, "input_schema": {"type": "nothing"}, "defer_loading": True}
    assert names(parsed(SEARCHED[:1], tools=[LOOK, broken])) == ["look"]
    error = refused(*SEARCHED, found("close_valve"), tools=[SEARCH, broken])
    assert (error.param or "").startswith("tools[1].input_schema")


def test_a_choice_of_a_tool_that_was_not_found_is_refused() -> None:
    choice = {"type": "tool", "name": "close_valve"}
    error = refused(HI, tool_choice=choice)
    assert (type(error), error.param) == (UnknownTool, "tool_choice")
    asked = parsed([*SEARCHED, found("close_valve")], tools=TOOLS, tool_choice=choice)
    assert asked.tool_choice == NamedTool("close_valve")


@pytest.mark.parametrize("kind", ["tool_addition", "tool_removal"])
def test_a_change_of_a_tool_that_the_client_has_no_more_is_left_out(kind: str) -> None:
    asked = parsed([HI, changed(kind, "gone")], tools=TOOLS)
    assert asked.messages == parsed([HI], tools=TOOLS).messages
    path = "messages[1].content[0].tool"
    assert [(each.kind, each.path) for each in asked.history_changes] == [("left_out", path)]


@pytest.mark.parametrize(
    ("tool", "path"),
    [
        ({"type": "tool_reference"}, "tool.name"),
        ({"type": "tool_definition"}, "tool.definition"),
        ({"type": "tool_definition", "definition": {"name": "a"}}, "tool.definition.input_schema"),
        ("look", "tool"),
    ],
)
def test_an_invalid_change_is_refused_at_its_path(tool: Any, path: str) -> None:
    message = {"role": "system", "content": [{"type": "tool_addition", "tool": tool}]}
    assert refused(HI, message).param == f"messages[1].content[0].{path}"


def test_two_deferred_tools_of_one_name_are_refused_unless_they_are_the_same() -> None:
    later = {**CLOSE, "defer_loading": True}
    asked = [*SEARCHED, found("close_valve")]
    assert names(parsed(asked, tools=[SEARCH, later, later]))[-1] == "close_valve"
    assert names(parsed(asked, tools=[SEARCH, CLOSE, later]))[-1] == "close_valve"
    other = {**WALK, "name": "close_valve"}
    for tools in ([SEARCH, later, {**other, "defer_loading": True}], [SEARCH, later, other]):
        assert isinstance(refused(*asked, tools=tools), InvalidTools)


def test_ten_thousand_deferred_tools_are_read_only_if_they_are_found() -> None:
    many = [{**CLOSE, "name": f"valve_{at}", "defer_loading": True} for at in range(9_998)]
    asked = parsed([*SEARCHED, found("valve_77")], tools=[SEARCH, LOOK, *many])
    assert names(asked) == ["ToolSearch", "look", "valve_77"]
    eager = [{**CLOSE, "name": f"valve_{at}"} for at in range(1_001)]
    assert refused(HI, tools=eager).param == "tools"
