"""The search for deferred tools that the gateway runs, inside one response."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.litellm.own_route import Gateway, Response
from tests.support.servers.script import Script, call
from toolgate_core import wire

SCHEMA = {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]}
ROOM = {"room": "4"}
HI = {"role": "user", "content": "Close the window."}
PATHS = {"responses": "/v1/responses", "messages": "/v1/messages"}
NAMES = {"responses": "tool_search", "messages": "tool_search_tool_bm25"}
DEFERRED = {
    "close_window": "Close a window of a room.",
    "open_door": "Open the door of a room.",
    "paint": "Give it a colour.",
}
Json = dict[str, Any]


def body(api: str, method: str = "bm25", **params: Any) -> Json:
    key, schema = ("input_schema", "parameters")[api == "responses"], SCHEMA
    function: Json = {"type": "function"} if api == "responses" else {}
    tools: list[Json] = [
        {**function, "name": name, "description": text, key: schema, "defer_loading": True}
        for name, text in DEFERRED.items()
    ]
    look = {**function, "name": "look", "description": "Look around.", key: schema}
    if api == "responses":
        return {
            "model": "tiny",
            "input": [HI],
            "tools": [{"type": "tool_search"}, look, *tools],
        } | params
    name = f"tool_search_tool_{method}"
    search = {"type": f"{name}_20251119", "name": name}
    sent = {"model": "tiny", "max_tokens": 500, "messages": [HI], "tools": [search, look, *tools]}
    return sent | params


async def ask(gateway: Gateway, api: str, *turns: str, **params: Any) -> Response:
    gateway.backend.turns = [Script((text,)) for text in turns]
    return await gateway.ask(body(api, **params), path=PATHS[api])


def search(api: str, query: str) -> str:
    return call(NAMES[api], {"query": query})


def items(api: str, response: Response) -> list[Json]:
    """The blocks or items of a complete or streamed response."""
    if response.headers[b"content-type"] == b"application/json":
        found: list[Json] = response.json["output" if api == "responses" else "content"]
        return found
    if api == "responses":
        last: list[Json] = response.events[-1]["response"]["output"]
        return last
    blocks: list[Json] = []
    for event in response.events:
        if event["type"] == "content_block_start":
            blocks.append({**event["content_block"], "text_": ""})
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            blocks[-1]["text_"] += delta.get("text") or delta.get("partial_json") or ""
    for block in blocks:
        text = block.pop("text_")
        if block["type"] == "text":
            block["text"] = text
        elif "input" in block:
            block["input"] = json.loads(text)
    return blocks


FOUND = {
    "responses": ["message", "tool_search_call", "tool_search_output", "function_call"],
    "messages": ["text", "server_tool_use", "tool_search_tool_result", "tool_use"],
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", PATHS)
async def test_a_tool_is_found_and_called_in_one_response(
    gateway: Gateway, api: str, stream: bool
) -> None:
    turns = "I search." + search(api, "close window"), call("close_window", ROOM)
    response = await ask(gateway, api, *turns, stream=stream)
    assert response.status == 200, response.bodies
    shown = items(api, response)
    assert [each["type"] for each in shown] == FOUND[api]
    _, asked, result, called = shown
    assert called["name"] == "close_window"
    if api == "responses":
        assert asked["arguments"] == {"query": "close window"}
        assert (asked["execution"], result["execution"]) == ("server", "server")
        assert asked["call_id"] == result["call_id"]
        assert [tool["name"] for tool in result["tools"]] == ["close_window"]
        assert json.loads(called["arguments"]) == ROOM
    else:
        assert asked["input"] == {"query": "close window"}
        assert asked["id"].startswith("srvtoolu_")
        assert result["tool_use_id"] == asked["id"]
        reference = {"type": "tool_reference", "tool_name": "close_window"}
        assert result["content"]["tool_references"] == [reference]
        assert called["input"] == ROOM
    first, second = gateway.backend.requests
    assert first.enforcement is not None
    assert second.enforcement is not None
    names = [each.name for each in second.enforcement.candidates]
    assert names == [NAMES[api], "look", "close_window"]
    assert first.request_id != second.request_id
    assert isinstance(first.prompt, wire.ChatPrompt)
    assert isinstance(second.prompt, wire.ChatPrompt)
    assert second.prompt.tools == first.prompt.tools
    assert second.prompt.messages[: len(first.prompt.messages)] == first.prompt.messages
    assert second.prompt.messages[-1]["content"][0]["type"] == wire.TOOL_DEFINITIONS


@pytest.mark.parametrize("api", PATHS)
async def test_streamed_and_complete_responses_are_the_same(gateway: Gateway, api: str) -> None:
    searches = f"{search(api, 'door')}\n{search(api, 'nothing of it')}"
    turns = searches, call("open_door", ROOM)
    shown = []
    for stream in (False, True):
        response = await ask(gateway, api, *turns, stream=stream)
        shown.append([_without_ids(each) for each in items(api, response)])
    assert shown[0] == shown[1]


def _without_ids(item: Json) -> Json:
    return {name: value for name, value in item.items() if not name.endswith("id")}


@pytest.mark.parametrize("api", PATHS)
async def test_the_next_turn_continues_the_same_prompt(gateway: Gateway, api: str) -> None:
    turns = search(api, "close window"), call("close_window", ROOM)
    response = await ask(gateway, api, *turns)
    rounds = [request.prompt for request in gateway.backend.requests]
    shown = items(api, response)
    if api == "responses":
        result = {"type": "function_call_output", "call_id": shown[-1]["call_id"], "output": "ok"}
        more: Json = {"input": [HI, *shown, result]}
    else:
        result = {"type": "tool_result", "tool_use_id": shown[-1]["id"], "content": "ok"}
        turn = {"role": "assistant", "content": shown}
        more = {"messages": [HI, turn, {"role": "user", "content": [result]}]}
    again = await ask(gateway, api, "Done.", **more)
    assert again.status == 200, again.bodies
    prompt = gateway.backend.requests[-1].prompt
    assert isinstance(prompt, wire.ChatPrompt)
    last = rounds[-1]
    assert isinstance(last, wire.ChatPrompt)
    assert prompt.messages[: len(last.messages)] == last.messages
    assert len(prompt.messages) == len(last.messages) + 2
    assert prompt.tools == last.tools


@pytest.mark.parametrize("api", PATHS)
async def test_the_usage_is_that_of_all_rounds(gateway: Gateway, api: str) -> None:
    response = await ask(gateway, api, search(api, "door"), "Nothing to do.")
    usage = response.json["usage"]
    cached = 6
    if api == "messages":
        assert usage["cache_read_input_tokens"] == cached
        assert usage["input_tokens"] == 22 - cached
        assert response.json["stop_reason"] == "end_turn"
    else:
        assert usage["input_tokens_details"]["cached_tokens"] == cached
        assert usage["input_tokens"] == 22
        assert response.json["status"] == "completed"
    assert response.context.prompt_tokens == 22
    assert response.context.completion_tokens == usage["output_tokens"]


@pytest.mark.parametrize("api", PATHS)
async def test_a_search_without_a_result_goes_on(gateway: Gateway, api: str) -> None:
    response = await ask(gateway, api, search(api, "submarine"), "There is no such tool.")
    assert [each["type"] for each in items(api, response)] == [*FOUND[api][1:3], FOUND[api][0]]
    assert "No tool was found" in gateway.backend.messages()[-1]["content"]
    candidates = gateway.backend.callable_tools()
    assert candidates == [NAMES[api], "look"]


@pytest.mark.parametrize("api", PATHS)
async def test_a_search_beside_a_call_for_the_client_ends_the_turn(
    gateway: Gateway, api: str
) -> None:
    response = await ask(gateway, api, f"{search(api, 'door')}\n{call('look', ROOM)}")
    types = [each["type"] for each in items(api, response)]
    searched, result, called = FOUND[api][1:]
    assert types == [searched, called, result]
    assert len(gateway.backend.requests) == 1


@pytest.mark.parametrize("api", PATHS)
async def test_searches_without_an_end_are_ended(gateway: Gateway, api: str) -> None:
    turns = [search(api, f"door {at}") for at in range(9)]
    response = await ask(gateway, api, *turns, "I give up.")
    assert response.status == 200, response.bodies
    assert items(api, response)[-1]["type"] == FOUND[api][0]
    assert gateway.backend.callable_tools() == ["look", "open_door"]


async def test_the_tokens_of_all_rounds_are_bounded(gateway: Gateway) -> None:
    searched = search("messages", "door")
    response = await ask(gateway, "messages", searched, "Nothing.", max_tokens=60)
    first, second = gateway.backend.requests
    assert first.sampling.max_tokens == 60
    spent = response.json["usage"]["output_tokens"]
    assert second.sampling.max_tokens is not None
    assert 0 < second.sampling.max_tokens < 60
    assert spent <= 60
    cut = await ask(gateway, "messages", searched, max_tokens=60 - second.sampling.max_tokens)
    assert cut.json["stop_reason"] == "max_tokens"
    assert [each["type"] for each in cut.json["content"]] == FOUND["messages"][1:3]


async def test_an_unreadable_pattern_is_an_error_that_the_model_sees(gateway: Gateway) -> None:
    name = "tool_search_tool_regex"
    turns = call(name, {"query": "("}), call(name, {"query": "(?i)^OPEN"}), call("open_door", ROOM)
    response = await ask(gateway, "messages", *turns, method="regex")
    failed, found = (
        block["content"]
        for block in response.json["content"]
        if block["type"] == "tool_search_tool_result"
    )
    assert failed["type"] == "tool_search_tool_result_error"
    assert failed["error_code"] == "invalid_tool_input"
    assert found["tool_references"] == [{"type": "tool_reference", "tool_name": "open_door"}]
    history = {"role": "assistant", "content": response.json["content"]}
    result = {
        "type": "tool_result",
        "tool_use_id": response.json["content"][-1]["id"],
        "content": "ok",
    }
    messages = [HI, history, {"role": "user", "content": [result]}]
    last = gateway.backend.messages()
    again = await ask(gateway, "messages", "Done.", method="regex", messages=messages)
    assert again.status == 200, again.bodies
    assert gateway.backend.messages()[: len(last)] == last


@pytest.mark.parametrize("api", PATHS)
async def test_a_named_search_is_forced_once(gateway: Gateway, api: str) -> None:
    choice = {
        "responses": {"type": "tool_search"},
        "messages": {"type": "tool", "name": NAMES["messages"]},
    }[api]
    response = await ask(gateway, api, search(api, "door"), "Done.", tool_choice=choice)
    assert response.status == 200, response.bodies
    first, second = (request.enforcement for request in gateway.backend.requests)
    assert first is not None
    assert second is not None
    assert (first.choice, second.choice) == ("required", "auto")


async def test_a_last_message_of_the_assistant_is_refused(gateway: Gateway) -> None:
    messages = [HI, {"role": "assistant", "content": "I will"}]
    response = await ask(gateway, "messages", messages=messages)
    assert response.status == 400
    assert "last message" in response.json["error"]["message"]
