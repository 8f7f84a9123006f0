"""Custom tools and namespaces in the Responses API."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.apis.chat_events import events
from tests.support.apis.responses_api import (
    accumulated,
    check_response,
    parsed,
    streamed_and_whole,
)
from tests.support.servers.script import call
from toolgate_core.chat_request import AllowedTools, NamedTool
from toolgate_core.custom_tools import Grammar, grammar_of
from toolgate_core.errors import InvalidRequest

TEXT = 'say "hi" \\ to\n\tthem 😀 and all the others, one by one'
GRAMMAR = {"type": "grammar", "syntax": "regex", "definition": "(?s).*"}
SHELL = {"type": "custom", "name": "shell", "description": "Runs it.", "format": GRAMMAR}
CRM = {
    "type": "namespace",
    "name": "crm",
    "description": "Customers.",
    "tools": [
        {"type": "function", "name": "find", "parameters": {"type": "object"}},
        {"type": "custom", "name": "query", "defer_loading": True},
    ],
}


@pytest.mark.parametrize("cuts", [(), (3, 9, 20), tuple(range(40))])
def test_a_call_is_a_custom_tool_call_with_plain_text(cuts: tuple[int, ...]) -> None:
    made, body = streamed_and_whole(
        parsed(tools=[SHELL]), events(call("shell", {"input": TEXT})), cuts
    )
    assert accumulated(made) == body["output"]
    check_response(body)
    (item,) = body["output"]
    assert item["type"] == "custom_tool_call"
    assert item["id"].startswith("ctc_")
    assert (item["name"], item["input"]) == ("shell", TEXT)
    kinds = {event["type"] for event in made}
    assert {
        "response.custom_tool_call_input.delta",
        "response.custom_tool_call_input.done",
    } < kinds
    assert not any("function_call" in kind for kind in kinds)
    assert body["tools"] == [SHELL]


def test_a_cut_call_has_no_end() -> None:
    text = call("shell", {"input": TEXT})
    made, body = streamed_and_whole(
        parsed(tools=[SHELL]), events(text[: text.index("}")], finish="length")
    )
    assert accumulated(made) == body["output"]
    (item,) = body["output"]
    assert (body["status"], item["status"]) == ("incomplete", "incomplete")
    assert item["input"] == TEXT[:-1]
    kinds = [event["type"] for event in made]
    assert "response.custom_tool_call_input.done" not in kinds
    assert "response.output_item.done" not in kinds


def test_a_call_of_a_namespace_has_its_namespace() -> None:
    asked = parsed(tools=[CRM])
    assert [tool.name for tool in asked.tools] == ["crm.find", "crm.query"]
    assert [tool.param for tool in asked.tools] == [
        "tools[0].tools[0].parameters",
        "tools[0].tools[1].format.definition",
    ]
    text = call("crm.find", {}) + "\n" + call("crm.query", {"input": "all"})
    made, body = streamed_and_whole(asked, events(text))
    assert accumulated(made) == body["output"]
    check_response(body)
    assert [(item["namespace"], item["name"]) for item in body["output"]] == [
        ("crm", "find"),
        ("crm", "query"),
    ]
    assert body["output"][1]["input"] == "all"
    assert body["tools"][0]["name"] == "crm"


def test_a_namespace_without_a_description_is_repeated_with_an_empty_one() -> None:
    bare = {name: value for name, value in CRM.items() if name != "description"}
    _, body = streamed_and_whole(parsed(tools=[bare]), events("Hello"))
    check_response(body)
    assert body["tools"][0]["description"] == ""


def test_earlier_calls_and_results_go_to_the_template() -> None:
    asked = parsed(
        [
            {"type": "custom_tool_call", "call_id": "c1", "name": "shell", "input": 'a "b"'},
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"},
            {
                "type": "function_call",
                "call_id": "c2",
                "name": "find",
                "namespace": "crm",
                "arguments": "{}",
            },
            {"type": "function_call_output", "call_id": "c2", "output": "none"},
        ]
    )
    first, result, second, _ = asked.messages
    assert first["tool_calls"][0]["function"] == {
        "name": "shell",
        "arguments": '{"input": "a \\"b\\""}',
    }
    assert result == {"role": "tool", "tool_call_id": "c1", "content": "done"}
    assert second["tool_calls"][0]["function"]["name"] == "crm.find"


def test_tool_choice_can_name_a_custom_tool() -> None:
    named = {"type": "custom", "name": "shell"}
    assert parsed(tools=[SHELL], tool_choice=named).tool_choice == NamedTool("shell")
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [named]}
    asked = parsed(tools=[SHELL], tool_choice=allowed)
    assert asked.tool_choice == AllowedTools("required", ("shell",))


def test_the_grammar_is_that_of_the_request() -> None:
    (tool,) = parsed(tools=[SHELL]).tools
    assert grammar_of(tool.parameters) == Grammar("regex", "(?s).*")


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        ([{**SHELL, "name": "a b"}], "tools[0].name"),
        ([{**SHELL, "format": {"type": "xml"}}], "tools[0].format.type"),
        ([{**SHELL, "format": {**GRAMMAR, "syntax": "gbnf"}}], "tools[0].format.syntax"),
        ([{**SHELL, "format": {**GRAMMAR, "definition": 5}}], "tools[0].format.definition"),
        ([{**SHELL, "parameters": {}}], "tools[0].parameters"),
        ([{"type": "web_search"}, SHELL, {**SHELL, "description": "Another."}], "tools[2].name"),
        ([{**CRM, "name": None}], "tools[0].name"),
        ([{**CRM, "tools": [CRM]}], "tools[0].tools[0].type"),
        ([{**CRM, "tools": [{**SHELL, "name": 1}]}], "tools[0].tools[0].name"),
        ([{**SHELL, "allowed_callers": ["programmatic"]}], "tools[0].allowed_callers"),
    ],
)
def test_invalid_tools_are_refused_with_their_path(tools: list[dict[str, Any]], param: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        parsed(tools=tools)
    assert raised.value.param == param
    assert ".custom" not in raised.value.message
