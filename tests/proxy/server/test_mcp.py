"""MCP servers of LiteLLM in the Responses API: the gateway runs their tools inside a response."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.litellm.mcp import FAIL, LOOKUP, ODD, ran
from tests.support.litellm.own_route import Gateway, Response
from tests.support.servers.script import Script, call
from toolgate_proxy.api.responses.approvals import DENIED
from toolgate_proxy.server.response_headers import own_headers

PATH = "/v1/responses"
HI = {"role": "user", "content": "Which record is it?"}
SHOP = {"type": "mcp", "server_label": "shop", "server_url": "litellm_proxy/mcp/shop"}
CALL = call(LOOKUP, {"id": 7})
FOUND = "lookup found record 7."
Json = dict[str, Any]
pytestmark = pytest.mark.usefixtures("calls")


async def ask(gateway: Gateway, *turns: str, approval: Any = "never", **params: Any) -> Response:
    gateway.backend.turns = [Script((text,)) for text in turns]
    body = {"model": "tiny", "input": [HI], "tools": [{**SHOP, "require_approval": approval}]}
    return await gateway.ask(body | params, path=PATH)


def types(items: list[Json]) -> list[str]:
    return [item["type"] for item in items]


async def test_a_tool_runs_inside_the_response(gateway: Gateway, calls: Path) -> None:
    response = await ask(gateway, CALL, "It is record 7.")
    assert response.status == 200, response.bodies
    listed, made, said = response.json["output"]
    assert types([listed, made, said]) == ["mcp_list_tools", "mcp_call", "message"]
    assert [tool["name"] for tool in listed["tools"]] == [LOOKUP, FAIL, ODD]
    assert listed["server_label"] == made["server_label"] == "shop"
    assert (made["name"], json.loads(made["arguments"])) == (LOOKUP, {"id": 7})
    assert (made["output"], made["error"], made["status"]) == (FOUND, None, "completed")
    assert ran(calls) == [{"id": 7}]
    assert gateway.backend.messages()[-1]["content"] == FOUND
    assert gateway.backend.callable_tools() == [LOOKUP, FAIL]


async def test_a_stream_has_the_same_items(gateway: Gateway) -> None:
    whole = (await ask(gateway, CALL, "It is record 7.")).json["output"]
    response = await ask(gateway, CALL, "It is record 7.", stream=True)
    streamed = response.events[-1]["response"]["output"]
    assert types(streamed) == types(whole)
    done = [e["item"] for e in response.events if e["type"] == "response.output_item.done"]
    assert done == streamed
    kinds = [e["type"].removeprefix("response.") for e in response.events if "mcp_" in e["type"]]
    assert [kind for kind in kinds if not kind.endswith("delta")] == [
        "mcp_list_tools.in_progress",
        "mcp_list_tools.completed",
        "mcp_call.in_progress",
        "mcp_call_arguments.done",
        "mcp_call.completed",
    ]
    deltas = [e["delta"] for e in response.events if e["type"].endswith("arguments.delta")]
    assert json.loads("".join(deltas)) == {"id": 7}


async def test_the_next_turn_sees_the_call_and_its_result(gateway: Gateway) -> None:
    items = (await ask(gateway, CALL, "It is record 7.")).json["output"]
    seen = _without_ids(gateway.backend.messages())
    more = {"role": "user", "content": "And?"}
    response = await ask(gateway, "That is all.", input=[HI, *items, more])
    assert response.status == 200, response.bodies
    assert _without_ids(gateway.backend.messages())[: len(seen)] == seen
    assert "x-toolgate-history" not in own_headers(response.context)


@pytest.mark.parametrize("recalled", [False, True])
async def test_tools_are_listed_again_only_if_they_have_changed(
    gateway: Gateway, recalled: bool
) -> None:
    first = (await ask(gateway, CALL, "It is record 7.")).json
    more = {"role": "user", "content": "And?"}
    history = {"input": [HI, *first["output"], more]}
    if recalled:
        history = {"input": [more], "previous_response_id": first["id"]}
    same = await ask(gateway, "That is all.", **history)
    assert types(same.json["output"]) == ["message"], same.bodies
    fewer = {**SHOP, "require_approval": "never", "allowed_tools": [LOOKUP]}
    other = await ask(gateway, "That is all.", tools=[fewer], **history)
    assert types(other.json["output"]) == ["mcp_list_tools", "message"]


def _without_ids(messages: list[Json]) -> list[Json]:
    shown = []
    for message in messages:
        kept = {name: value for name, value in message.items() if name != "tool_call_id"}
        if "tool_calls" in kept:
            kept["tool_calls"] = [each["function"] for each in kept["tool_calls"]]
        shown.append(kept)
    return shown


@pytest.mark.parametrize("approval", [None, "always", {"never": {"tool_names": ["fail"]}}])
async def test_a_call_waits_for_an_approval(gateway: Gateway, calls: Path, approval: Any) -> None:
    first = await ask(gateway, CALL, approval=approval)
    items = first.json["output"]
    assert types(items) == ["mcp_list_tools", "mcp_approval_request"]
    assert (items[1]["name"], json.loads(items[1]["arguments"])) == (LOOKUP, {"id": 7})
    assert ran(calls) == []
    answer = {
        "type": "mcp_approval_response",
        "approval_request_id": items[1]["id"],
        "approve": True,
    }
    second = await ask(gateway, "It is.", approval=approval, input=[HI, *items, answer])
    assert second.status == 200, second.bodies
    made, said = second.json["output"]
    assert types([made, said]) == ["mcp_call", "message"]
    assert made["approval_request_id"] == items[1]["id"]
    assert made["output"] == FOUND
    assert ran(calls) == [{"id": 7}]
    assert gateway.backend.messages()[-1]["content"] == FOUND
    history = [HI, *items, answer, made, said, {"role": "user", "content": "And?"}]
    third = await ask(gateway, "All.", approval=approval, input=history)
    assert third.status == 200, third.bodies
    assert ran(calls) == [{"id": 7}]
    contents = [message["content"] for message in gateway.backend.messages()]
    assert contents.count(FOUND) == 1


async def test_a_call_that_is_not_approved_does_not_run(gateway: Gateway, calls: Path) -> None:
    items = (await ask(gateway, CALL, approval="always")).json["output"]
    answer = {
        "type": "mcp_approval_response",
        "approval_request_id": items[1]["id"],
        "approve": False,
        "reason": "Too expensive.",
    }
    response = await ask(gateway, "Pity.", approval="always", input=[HI, *items, answer])
    assert response.status == 200, response.bodies
    assert gateway.backend.messages()[-1]["content"] == f"{DENIED} Too expensive."
    assert ran(calls) == []


@pytest.mark.parametrize(
    ("changes", "status"),
    [({"arguments": '{"id": "x"}'}, 400), ({"name": "shop-other"}, 400), ({"id": "other"}, 400)],
)
async def test_a_changed_request_for_approval_is_refused(
    gateway: Gateway, calls: Path, changes: Json, status: int
) -> None:
    items = (await ask(gateway, CALL, approval="always")).json["output"]
    answer = {
        "type": "mcp_approval_response",
        "approval_request_id": items[1]["id"],
        "approve": True,
    }
    changed = [items[0], {**items[1], **changes}, answer]
    response = await ask(gateway, "No.", approval="always", input=[HI, *changed])
    assert response.status == status, response.bodies
    assert ran(calls) == []


async def test_a_call_that_fails_is_a_result_that_says_so(gateway: Gateway) -> None:
    response = await ask(gateway, call(FAIL, {"id": 1}), "It failed.")
    assert response.status == 200, response.bodies
    made = response.json["output"][1]
    assert (made["status"], made["output"]) == ("failed", None)
    assert "closed" in made["error"]
    assert gateway.backend.messages()[-1]["content"] == f"Error: {made['error']}"


@pytest.mark.parametrize("allowed", [["lookup"], {"tool_names": [LOOKUP]}, {"read_only": True}])
async def test_only_allowed_tools_are_offered(gateway: Gateway, allowed: Any) -> None:
    tools = [{**SHOP, "require_approval": "never", "allowed_tools": allowed}]
    response = await ask(gateway, "Hello.", tools=tools)
    assert [tool["name"] for tool in response.json["output"][0]["tools"]] == [LOOKUP]
    assert gateway.backend.callable_tools() == [LOOKUP]


async def test_a_server_of_the_client_is_not_asked(gateway: Gateway) -> None:
    tools = [{**SHOP, "server_url": "http://127.0.0.1:9/mcp"}]
    response = await ask(gateway, "Hello.", tools=tools)
    assert response.status == 200, response.bodies
    assert "mcp" in own_headers(response.context)["x-toolgate-omitted-tools"]
    assert types(response.json["output"]) == ["message"]


async def test_a_server_that_does_not_exist_is_an_error_in_its_list(gateway: Gateway) -> None:
    tools = [{**SHOP, "server_url": "litellm_proxy/mcp/nothing"}]
    response = await ask(gateway, "Hello.", tools=tools)
    assert response.status == 200, response.bodies
    assert response.json["output"][0]["tools"] == []
    assert response.json["output"][0]["error"]


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"depth": 3}, "tools[0].depth"),
        ({"require_approval": "sometimes"}, "tools[0].require_approval"),
        ({"server_label": None}, "tools[0].server_label"),
        ({"allowed_tools": "all"}, "tools[0].allowed_tools"),
    ],
)
async def test_wrong_entries_are_refused(gateway: Gateway, changes: Json, param: str) -> None:
    response = await ask(gateway, tools=[{**SHOP, **changes}])
    assert response.status == 400
    assert response.json["error"]["param"] == param
