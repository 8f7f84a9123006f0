"""The search for tools that a client runs, the tools that it finds, and tools in the input."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.apis.chat_events import events
from tests.support.apis.responses_api import (
    LOOK,
    accumulated,
    check_event,
    check_response,
    parsed,
    streamed_and_whole,
)
from tests.support.servers.script import call
from toolgate_core.chat_request import ChatRequest, NamedTool
from toolgate_core.errors import InvalidRequest, UnknownTool
from toolgate_proxy.api.responses.request import parse_request
from toolgate_proxy.api.shared.tool_search import NOTHING_FOUND

VALVE = {"type": "object", "properties": {"room": {"type": "string", "maxLength": 12}}}
SEARCH = {
    "type": "tool_search",
    "execution": "client",
    "description": "Finds tools.",
    "parameters": {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "number"}},
    },
}
OPEN = {"type": "function", "name": "open_valve", "parameters": VALVE}
LATER = {**OPEN, "defer_loading": True}
SHOP = {"type": "namespace", "name": "mcp__shop", "description": "A shop.", "tools": [LATER]}
HI: dict[str, Any] = {"role": "user", "content": "Open the valve."}
SEARCHED: list[dict[str, Any]] = [
    HI,
    {
        "type": "tool_search_call",
        "call_id": "ts_1",
        "execution": "client",
        "status": "completed",
        "arguments": {"query": "valves"},
    },
]


def output(*tools: dict[str, Any], call_id: str | None = "ts_1") -> dict[str, Any]:
    return {
        "type": "tool_search_output",
        "call_id": call_id,
        "execution": "client",
        "status": "completed",
        "tools": [*tools],
    }


def additional(*tools: dict[str, Any]) -> dict[str, Any]:
    return {"type": "additional_tools", "role": "developer", "tools": [*tools]}


def shown(*names: str) -> list[dict[str, Any]]:
    functions = [{"name": name, "parameters": VALVE} for name in names]
    tools = [{"type": "function", "function": function} for function in functions]
    return [{"type": "tool_definitions", "tools": tools}]


def names(asked: ChatRequest) -> list[str]:
    return [tool.name for tool in asked.tools]


def listed(asked: ChatRequest) -> list[str]:
    return [tool.name for tool in asked.prompt_tools]


def test_the_search_is_a_function_of_the_model() -> None:
    asked = parsed([HI], tools=[SEARCH, LOOK, LATER])
    assert names(asked) == ["tool_search", "look"]
    search = asked.tools[0].definition["function"]
    assert (search["description"], search["parameters"]) == (
        SEARCH["description"],
        SEARCH["parameters"],
    )
    assert asked.omitted_tools == ()
    forced = parsed([HI], tools=[SEARCH], tool_choice={"type": "tool_search"})
    assert forced.tool_choice == NamedTool("tool_search")


@pytest.mark.parametrize("cuts", [(), (3, 9, 20), tuple(range(30))])
def test_its_call_is_an_item_with_an_object(cuts: tuple[int, ...]) -> None:
    wanted = {"query": 'valves "x"', "limit": 3}
    asked = parsed([HI], tools=[SEARCH, LOOK])
    made, body = streamed_and_whole(
        asked, events(call("tool_search", wanted) + "\n" + call("look", {})), cuts
    )
    for event in made:
        check_event(event)
    check_response(body)
    assert accumulated(made) == body["output"]
    search, other = body["output"]
    assert {name: search[name] for name in ("type", "status", "execution", "arguments")} == {
        "type": "tool_search_call",
        "status": "completed",
        "execution": "client",
        "arguments": wanted,
    }
    assert search["id"].startswith("tsc_")
    assert other["type"] == "function_call"
    of_search = [each for each in made if each.get("item_id") == search["id"]]
    assert of_search == []
    kinds = [
        each["type"] for each in made if each.get("item", {}).get("type") == "tool_search_call"
    ]
    assert kinds == ["response.output_item.added", "response.output_item.done"]


def test_a_search_that_is_cut_has_no_end() -> None:
    text = call("tool_search", {"query": "valves"})
    asked = parsed([HI], tools=[SEARCH])
    made, body = streamed_and_whole(asked, events(text[: text.index("val")], finish="length"))
    [search] = body["output"]
    assert (search["status"], search["arguments"]) == ("incomplete", {})
    assert "response.output_item.done" not in [each["type"] for each in made]
    check_response(body)


@pytest.mark.parametrize("number", ["1" + "0" * 30, "-1e400", "0.5"])
def test_numbers_of_a_search_are_numbers_of_json(number: str) -> None:
    text = call("tool_search", {"limit": 0}).replace("0", number)
    made, body = streamed_and_whole(parsed([HI], tools=[SEARCH]), events(text))
    assert accumulated(made) == body["output"]
    given = json.loads(json.dumps(body["output"][0]["arguments"]), parse_constant=pytest.fail)
    assert isinstance(given["limit"], float)


def test_a_function_of_the_same_name_is_no_search() -> None:
    own = {"type": "function", "name": "tool_search", "parameters": {"type": "object"}}
    made, body = streamed_and_whole(parsed([HI], tools=[own]), events(call("tool_search", {})))
    assert body["output"][0]["type"] == "function_call"
    assert accumulated(made) == body["output"]


def test_tools_that_were_found_can_be_called_and_are_shown_there() -> None:
    before = parsed(SEARCHED[:1], tools=[SEARCH, LOOK])
    asked = parsed([*SEARCHED, output(OPEN)], tools=[SEARCH, LOOK])
    assert names(asked) == ["tool_search", "look", "open_valve"]
    assert listed(asked) == listed(before) == ["tool_search", "look"]
    user, turn, result = asked.messages
    assert user == before.messages[0]
    assert turn["tool_calls"][0]["function"] == {
        "name": "tool_search",
        "arguments": '{"query": "valves"}',
    }
    assert (result["role"], result["content"]) == ("tool", shown("open_valve"))
    assert result["tool_call_id"] == turn["tool_calls"][0]["id"]
    assert asked.tools[-1].param == "input[2].tools[0].parameters"


def test_namespaces_that_were_found_keep_their_names() -> None:
    asked = parsed([*SEARCHED, output(SHOP)], tools=[SEARCH])
    assert names(asked) == ["tool_search", "mcp__shop.open_valve"]
    made, body = streamed_and_whole(asked, events(call("mcp__shop.open_valve", {})))
    [item] = body["output"]
    assert (item["namespace"], item["name"]) == ("mcp__shop", "open_valve")
    assert accumulated(made) == body["output"]
    later = parsed([*SEARCHED, output(SHOP), {**item, "call_id": "c"}], tools=[SEARCH])
    assert later.messages[-1]["tool_calls"][0]["function"]["name"] == "mcp__shop.open_valve"


def test_a_tool_is_shown_once() -> None:
    again = [{**SEARCHED[1], "call_id": "ts_2"}, output(OPEN, call_id="ts_2")]
    asked = parsed([*SEARCHED, output(OPEN), *again], tools=[SEARCH])
    assert asked.messages[-1]["content"] == [
        {"type": "text", "text": "These tools can be called: open_valve"}
    ]
    nothing = parsed([*SEARCHED, output()], tools=[SEARCH])
    assert nothing.messages[-1]["content"] == NOTHING_FOUND


@pytest.mark.parametrize("found", [True, False], ids=["found", "loaded at once"])
def test_a_deferred_function_of_the_request_has_its_name_as_namespace(found: bool) -> None:
    search = [SEARCH] if found else []
    given = [*SEARCHED, output(LATER)] if found else [HI]
    asked = parsed(given, tools=[*search, LATER])
    assert names(asked)[-1] == "open_valve"
    _, body = streamed_and_whole(asked, events(call("open_valve", {})))
    [item] = body["output"]
    assert (item["namespace"], item["name"]) == ("open_valve", "open_valve")
    check_response(body)
    later = parsed([*given, {**item, "call_id": "c"}], tools=[*search, LATER])
    assert later.messages[-1]["tool_calls"][0]["function"]["name"] == "open_valve"


def test_a_found_function_that_the_request_does_not_have_has_no_namespace() -> None:
    asked = parsed([*SEARCHED, output(LATER)], tools=[SEARCH])
    _, body = streamed_and_whole(asked, events(call("open_valve", {})))
    assert "namespace" not in body["output"][0]


def test_the_default_namespace_is_no_part_of_a_name() -> None:
    functions = {"type": "namespace", "name": "functions", "tools": [OPEN]}
    asked = parsed([HI], tools=[functions])
    assert names(asked) == ["open_valve"]
    _, body = streamed_and_whole(asked, events(call("open_valve", {})))
    assert "namespace" not in body["output"][0]
    assert body["tools"][0]["tools"][0]["name"] == "open_valve"
    called = {"type": "function_call", "call_id": "c", "name": "open_valve", "arguments": "{}"}
    later = parsed([HI, {**called, "namespace": "functions"}], tools=[functions])
    assert later.messages[-1]["tool_calls"][0]["function"]["name"] == "open_valve"


def test_the_response_repeats_the_search_and_deferred_tools() -> None:
    asked = parsed([HI], tools=[SEARCH, LATER, SHOP, {"type": "web_search"}])
    _, body = streamed_and_whole(asked, events("Well."))
    search, later, shop = body["tools"]
    assert search == SEARCH
    assert (later["name"], later["defer_loading"]) == ("open_valve", True)
    assert shop["tools"][0]["name"] == "open_valve"
    check_response(body)


def test_a_search_without_an_id_belongs_to_the_next_output() -> None:
    server = {**SEARCHED[1], "call_id": None, "execution": "server"}
    asked = parsed([HI, server, {**output(OPEN, call_id=None), "execution": "server"}])
    assert names(asked) == ["open_valve"]
    _, turn, result = asked.messages
    assert result["tool_call_id"] == turn["tool_calls"][0]["id"]


def test_a_tool_of_the_request_is_not_shown_again_when_it_is_found() -> None:
    given = [*SEARCHED, output(OPEN), {"role": "user", "content": "Go."}]
    asked = parsed(given, tools=[OPEN], tool_choice="required")
    assert names(asked) == listed(asked) == ["open_valve"]
    assert "tool_definitions" not in str(asked.messages)


def test_additional_tools_can_be_called_from_their_place_on() -> None:
    asked = parsed([HI, additional(OPEN)], tools=[LOOK])
    assert (names(asked), listed(asked)) == (["look", "open_valve"], ["look"])
    assert asked.messages[-1]["role"] == "system"
    heading, definitions = asked.messages[-1]["content"]
    assert "can be called from here on" in heading["text"]
    assert [definitions] == shown("open_valve")
    first = parsed([additional(OPEN), HI], tools=[LOOK])
    assert names(first) == listed(first) == ["look", "open_valve"]
    assert first.messages == parsed([HI]).messages
    nothing = parsed([HI, additional()], tools=[LOOK])
    assert nothing.messages == parsed([HI]).messages


def test_tools_of_a_conversation_that_is_continued_stay_found() -> None:
    body = {"input": [*SEARCHED, output(OPEN), HI], "tools": [SEARCH]}
    asked = parse_request({"model": "tiny", **body}, model="tiny", recalled=3)
    assert names(asked) == ["tool_search", "open_valve"]


def refused(given: Any, **params: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as error:
        parsed(given, **params)
    return error.value


def test_a_choice_of_a_tool_that_was_not_found_is_refused() -> None:
    choice = {"type": "function", "name": "open_valve"}
    error = refused([HI], tools=[SEARCH, LATER], tool_choice=choice)
    assert (type(error), error.param) == (UnknownTool, "tool_choice")
    asked = parsed([*SEARCHED, output(LATER)], tools=[SEARCH, LATER], tool_choice=choice)
    assert asked.tool_choice == NamedTool("open_valve")


@pytest.mark.parametrize(
    ("item", "param"),
    [
        (output({"type": "function", "name": "no spaces"}), "input[2].tools[0].name"),
        (output({**OPEN, "parameters": {"type": 3}}), "input[2].tools[0].parameters"),
        (additional({"type": "namespace", "name": "a"}), "input[2].tools[0].tools"),
        (additional({"type": "web_serach"}), "input[2].tools[0].type"),
    ],
)
def test_an_invalid_tool_is_refused_at_its_path(item: Any, param: str) -> None:
    assert (refused([*SEARCHED, item], tools=[SEARCH]).param or "").startswith(param)


def test_an_invalid_search_is_refused() -> None:
    assert refused([HI], tools=[{**SEARCH, "color": "red"}]).param == "tools[0].color"
    assert refused([HI], tools=[{**SEARCH, "parameters": 3}]).param == "tools[0].parameters"
