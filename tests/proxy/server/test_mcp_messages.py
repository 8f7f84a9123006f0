"""MCP servers of LiteLLM in the Messages API: the gateway runs their tools inside a message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.litellm.mcp import FAIL, LOOKUP, ran
from tests.support.litellm.own_route import Gateway, Response
from tests.support.servers.script import Script, call
from toolgate_proxy.server.response_headers import own_headers

PATH = "/v1/messages"
HI = {"role": "user", "content": "Which record is it?"}
SHOP = {"type": "url", "name": "records", "url": "litellm_proxy/mcp/shop"}
SET = {"type": "mcp_toolset", "mcp_server_name": "records"}
CALL = call(LOOKUP, {"id": 7})
Json = dict[str, Any]
pytestmark = pytest.mark.usefixtures("calls")


async def ask(gateway: Gateway, *turns: str, **params: Any) -> Response:
    gateway.backend.turns = [Script((text,)) for text in turns]
    body = {"model": "tiny", "max_tokens": 200, "messages": [HI], "mcp_servers": [SHOP]}
    return await gateway.ask(body | {"tools": [SET]} | params, path=PATH)


async def test_a_tool_runs_inside_the_message(gateway: Gateway, calls: Path) -> None:
    response = await ask(gateway, CALL, "It is record 7.")
    assert response.status == 200, response.bodies
    used, result, said = response.json["content"]
    assert (used["type"], used["name"], used["input"]) == ("mcp_tool_use", LOOKUP, {"id": 7})
    assert used["server_name"] == "records"
    assert used["id"].startswith("mcptoolu_")
    assert result == {
        "type": "mcp_tool_result",
        "tool_use_id": used["id"],
        "is_error": False,
        "content": [{"type": "text", "text": "lookup found record 7."}],
    }
    assert said["text"] == "It is record 7."
    assert response.json["stop_reason"] == "end_turn"
    assert ran(calls) == [{"id": 7}]
    assert gateway.backend.callable_tools() == [LOOKUP, FAIL]


async def test_a_stream_has_the_same_blocks(gateway: Gateway) -> None:
    whole = (await ask(gateway, CALL, "It is record 7.")).json["content"]
    response = await ask(gateway, CALL, "It is record 7.", stream=True)
    starts = [e["content_block"] for e in response.events if e["type"] == "content_block_start"]
    assert [each["type"] for each in starts] == [each["type"] for each in whole]
    assert starts[1]["content"] == whole[1]["content"]
    parts = [e["delta"].get("partial_json", "") for e in response.events if "delta" in e]
    assert json.loads("".join(parts)) == {"id": 7}


async def test_the_next_turn_continues_the_same_prompt(gateway: Gateway) -> None:
    content = (await ask(gateway, call(FAIL, {"id": 1}), "It failed.")).json["content"]
    assert content[1]["is_error"] is True
    assert "closed" in content[1]["content"][0]["text"]
    seen = gateway.backend.messages()
    messages = [HI, {"role": "assistant", "content": content}, {"role": "user", "content": "And?"}]
    response = await ask(gateway, "That is all.", messages=messages)
    assert response.status == 200, response.bodies
    assert gateway.backend.messages()[: len(seen)] == seen
    assert "x-toolgate-history" not in own_headers(response.context)


@pytest.mark.parametrize(
    "changes",
    [
        {"tools": [{**SET, "configs": {"fail": {"enabled": False}}}]},
        {
            "tools": [
                {
                    **SET,
                    "default_config": {"enabled": False},
                    "configs": {LOOKUP: {"enabled": True}},
                }
            ]
        },
        {
            "tools": [],
            "mcp_servers": [{**SHOP, "tool_configuration": {"allowed_tools": ["lookup"]}}],
        },
    ],
)
async def test_only_enabled_tools_are_offered(gateway: Gateway, changes: Json) -> None:
    response = await ask(gateway, "Hello.", **changes)
    assert response.status == 200, response.bodies
    assert gateway.backend.callable_tools() == [LOOKUP]


async def test_deferred_tools_are_found(gateway: Gateway, calls: Path) -> None:
    name = "tool_search_tool_bm25"
    search = {"type": f"{name}_20251119", "name": name}
    toolset = {**SET, "default_config": {"defer_loading": True}}
    turns = call(name, {"query": "look up a record"}), CALL, "It is record 7."
    response = await ask(gateway, *turns, tools=[search, toolset])
    assert response.status == 200, response.bodies
    assert gateway.backend.listed_tools(0) == [name]
    assert [block["type"] for block in response.json["content"]] == [
        "server_tool_use",
        "tool_search_tool_result",
        "mcp_tool_use",
        "mcp_tool_result",
        "text",
    ]
    assert ran(calls) == [{"id": 7}]


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"mcp_servers": [{**SHOP, "url": "https://example.com/sse"}]}, "mcp_servers[0].url"),
        ({"mcp_servers": [{**SHOP, "depth": 3}]}, "mcp_servers[0].depth"),
        ({"tools": [{**SET, "mcp_server_name": "other"}]}, "tools[0].mcp_server_name"),
        ({"tools": [{**SET, "configs": {"fail": 3}}]}, "tools[0].configs.fail"),
    ],
)
async def test_wrong_servers_are_refused(gateway: Gateway, changes: Json, param: str) -> None:
    response = await ask(gateway, **changes)
    assert response.status == 400, response.bodies
    assert response.json["error"]["param"] == param
