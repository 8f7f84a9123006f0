"""MCP servers of LiteLLM in chat completions: the gateway runs their tools inside a response."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from openai.lib.streaming._deltas import accumulate_delta

from tests.support.litellm.mcp import FAIL, LOOKUP, ODD, ran
from tests.support.litellm.own_route import Gateway, Response
from tests.support.servers.script import Script, call
from toolgate_proxy.server.response_headers import own_headers

HI = {"role": "user", "content": "Which record is it?"}
SHOP = {"type": "mcp", "server_url": "litellm_proxy/mcp/shop"}
OWN = {
    "type": "function",
    "function": {"name": "paint", "parameters": {"type": "object", "properties": {}}},
}
CALL = call(LOOKUP, {"id": 7})
PAINT = call("paint", {})
Json = dict[str, Any]
pytestmark = pytest.mark.usefixtures("calls")


async def ask(gateway: Gateway, *turns: str, approval: Any = "never", **params: Any) -> Response:
    gateway.backend.turns = [Script((text,)) for text in turns]
    body = {"model": "tiny", "messages": [HI], "tools": [{**SHOP, "require_approval": approval}]}
    return await gateway.ask(body | params)


def choice_of(response: Response) -> tuple[Json, str]:
    """Return the message and the reason of its end, of a stream as OpenAI's SDK adds it up."""
    if response.headers[b"content-type"] == b"application/json":
        [choice] = response.json["choices"]
        return choice["message"], choice["finish_reason"]
    message: dict[object, object] = {}
    assert all("choices" in event for event in response.events), response.events
    [*choices] = [choice for event in response.events for choice in event["choices"]]
    for choice in choices:
        accumulate_delta(message, choice["delta"])
    return json.loads(json.dumps(message)), choices[-1]["finish_reason"]


async def test_a_tool_runs_inside_the_response(gateway: Gateway, calls: Path) -> None:
    response = await ask(gateway, CALL, "It is record 7.")
    assert response.status == 200, response.bodies
    message, reason = choice_of(response)
    assert (message["content"], reason) == ("It is record 7.", "stop")
    assert "tool_calls" not in message
    given = message["provider_specific_fields"]
    assert [tool["function"]["name"] for tool in given["mcp_list_tools"]] == [LOOKUP, FAIL, ODD]
    [made], [result] = given["mcp_tool_calls"], given["mcp_call_results"]
    assert (made["type"], made["function"]["name"]) == ("function", LOOKUP)
    assert json.loads(made["function"]["arguments"]) == {"id": 7}
    assert result == {
        "tool_call_id": made["id"],
        "result": "lookup found record 7.",
        "name": LOOKUP,
    }
    assert ran(calls) == [{"id": 7}]
    assert gateway.backend.messages()[-1]["content"] == "lookup found record 7."
    assert gateway.backend.callable_tools() == [LOOKUP, FAIL]


@pytest.mark.parametrize(
    "turns",
    [
        ("Hello.",),
        (CALL, "It is record 7."),
        (f"Let me see.{CALL}", f"Again.{CALL}", CALL, "It is record 7."),
        (CALL, PAINT),
        ("\n".join((CALL, PAINT, CALL, PAINT)),),
    ],
)
async def test_a_stream_is_the_same(gateway: Gateway, calls: Path, turns: tuple[str, ...]) -> None:
    tools = [{**SHOP, "require_approval": "never"}, OWN]
    whole = await ask(gateway, *turns, tools=tools)
    asked = len(ran(calls))
    options = {"include_usage": True}
    stream = await ask(gateway, *turns, tools=tools, stream=True, stream_options=options)
    assert len(ran(calls)) == 2 * asked
    assert _comparable(stream) == _comparable(whole)
    assert stream.events[-1]["usage"] == whole.json["usage"]


def _comparable(response: Response) -> tuple[Json, str]:
    """Return the choice without the ids of calls and what is null."""
    message, reason = choice_of(response)
    given = message.get("provider_specific_fields", {})
    made, client = given.get("mcp_tool_calls", []), message.get("tool_calls", [])
    assert [each["id"] for each in made] == [
        each["tool_call_id"] for each in given.get("mcp_call_results", [])
    ]
    assert len({each["id"] for each in [*made, *client]}) == len(made) + len(client)
    for each in [*made, *client, *given.get("mcp_call_results", [])]:
        for name in ("id", "tool_call_id", "index"):
            each.pop(name, None)
    return {name: value for name, value in message.items() if value is not None}, reason


async def test_calls_of_the_client_leave_as_usual(gateway: Gateway, calls: Path) -> None:
    tools = [OWN, {**SHOP, "require_approval": "never"}]
    response = await ask(gateway, CALL, f"{CALL}\n{PAINT}", tools=tools, stream=True)
    message, reason = choice_of(response)
    assert reason == "tool_calls"
    assert [(each["index"], each["function"]["name"]) for each in message["tool_calls"]] == [
        (0, "paint")
    ]
    assert len(message["provider_specific_fields"]["mcp_tool_calls"]) == 2
    assert ran(calls) == [{"id": 7}] * 2


async def test_the_next_turn_sees_the_calls_and_their_results(gateway: Gateway) -> None:
    message, _ = choice_of(await ask(gateway, CALL, CALL, "It is record 7."))
    seen = gateway.backend.messages()
    more = {"role": "user", "content": "And?"}
    response = await ask(gateway, "That is all.", messages=[HI, message, more])
    assert response.status == 200, response.bodies
    shown = gateway.backend.messages()
    assert shown[: len(seen)] == seen
    assert [each["role"] for each in shown[len(seen) :]] == ["assistant", "user"]
    assert "provider_specific_fields" not in json.dumps(shown)
    assert "x-toolgate-history" not in own_headers(response.context)


@pytest.mark.parametrize("approval", [None, "always", {"never": {"tool_names": ["lookup"]}}])
async def test_calls_that_need_an_approval_go_to_the_client(
    gateway: Gateway, calls: Path, approval: Any
) -> None:
    """As in LiteLLM."""
    response = await ask(gateway, CALL, approval=approval)
    message, reason = choice_of(response)
    assert (message["tool_calls"][0]["function"]["name"], reason) == (LOOKUP, "tool_calls")
    assert [*message["provider_specific_fields"]] == ["mcp_list_tools"]
    assert ran(calls) == []
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "Seven."}
    history = [HI, message, result]
    response = await ask(gateway, "It is seven.", approval=approval, messages=history)
    assert response.status == 200, response.bodies
    assert gateway.backend.messages()[-1]["content"] == "Seven."


async def test_one_server_with_approvals_is_enough(gateway: Gateway, calls: Path) -> None:
    tools = [{**SHOP, "require_approval": "never", "allowed_tools": ["lookup"]}]
    tools += [{**SHOP, "require_approval": "always", "allowed_tools": ["fail"]}]
    response = await ask(gateway, CALL, tools=tools)
    assert choice_of(response)[1] == "tool_calls"
    assert ran(calls) == []


async def test_a_call_that_fails_is_a_result_that_says_so(gateway: Gateway) -> None:
    response = await ask(gateway, call(FAIL, {"id": 1}), "It failed.")
    [result] = choice_of(response)[0]["provider_specific_fields"]["mcp_call_results"]
    assert "closed" in result["result"]
    assert gateway.backend.messages()[-1]["content"] == result["result"]


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/mcp", "litellm_proxy/mcp/nothing"])
async def test_a_server_that_can_not_be_used_is_left_out(gateway: Gateway, url: str) -> None:
    response = await ask(gateway, "Hello.", tools=[{**SHOP, "server_url": url}])
    assert response.status == 200, response.bodies
    assert "mcp" in own_headers(response.context)["x-toolgate-omitted-tools"]
    assert "provider_specific_fields" not in choice_of(response)[0]


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"tools": [{**SHOP, "require_approval": "sometimes"}]}, "tools[0].require_approval"),
        ({"tools": [{**SHOP, "allowed_tools": "all"}]}, "tools[0].allowed_tools"),
        ({"tools": [{**SHOP, "depth": 3}]}, "tools[0].depth"),
        ({"n": 2}, "n"),
    ],
)
async def test_wrong_requests_are_refused(gateway: Gateway, changes: Json, param: str) -> None:
    response = await ask(gateway, **changes)
    assert response.status == 400, response.bodies
    assert response.json["error"]["param"] == param
