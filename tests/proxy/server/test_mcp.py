"""MCP servers of LiteLLM in the Responses API: the gateway runs their tools inside a response."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.litellm.fallbacks import BROKEN
from tests.support.litellm.mcp import FAIL, LOOKUP, ODD, ran
from tests.support.litellm.own_route import MASTER, Gateway, Response
from tests.support.servers.script import Script, call
from tests.support.servers.virtual_keys import key_of
from toolgate_proxy.api.responses.approvals import DENIED
from toolgate_proxy.api.shared import ran_once
from toolgate_proxy.api.shared.mcp import ListedTool, McpOutcome
from toolgate_proxy.api.shared.ran_once import RanOnce
from toolgate_proxy.chat import tool_loop
from toolgate_proxy.chat.tool_calls import TOO_MANY
from toolgate_proxy.kept_values import MemoryValues
from toolgate_proxy.sealing import OwnerSeal
from toolgate_proxy.server.response_headers import own_headers

PATH = "/v1/responses"
HI = {"role": "user", "content": "Which record is it?"}
SHOP = {"type": "mcp", "server_label": "shop", "server_url": "litellm_proxy/mcp/shop"}
CALL = call(LOOKUP, {"id": 7})
FOUND = "lookup found record 7."
Json = dict[str, Any]
pytestmark = pytest.mark.usefixtures("calls")


async def ask(gateway: Gateway, *turns: str, approval: Any = "never", **params: Any) -> Response:
    key = params.pop("key", MASTER)
    gateway.backend.turns = [Script((text,)) if text else BROKEN for text in turns]
    body = {"model": "tiny", "input": [HI], "tools": [{**SHOP, "require_approval": approval}]}
    return await gateway.ask(body | params, path=PATH, key=key)


def answered(asked: str, *, approve: bool = True, **more: str) -> Json:
    given = {"approval_request_id": asked, "approve": approve, **more}
    return {"type": "mcp_approval_response", **given}


def approved(*ids: str) -> list[Json]:
    asked = {"type": "mcp_approval_request", "name": LOOKUP, "arguments": '{"id": 7}'}
    asked["server_label"] = "shop"
    return [HI, *({**asked, "id": each} for each in ids), *map(answered, ids)]


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
    answer = answered(items[1]["id"])
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


async def test_an_approved_call_runs_once_for_its_owner_if_the_request_is_repeated(
    gateway: Gateway, calls: Path
) -> None:
    for runs, owner in enumerate(("sk-1", "sk-2"), 1):
        gateway.add_key(owner, key_of(owner, mcp_servers=("shop",)))
        for text in ("", "", "It is."):
            response = await ask(gateway, text, approval=None, key=owner, input=approved("mcpr_1"))
            assert response.status == (200 if text else 502), response.bodies
            assert ran(calls) == [{"id": 7}] * runs
        assert response.json["output"][1]["output"] == FOUND


@pytest.mark.parametrize(("bound", "most"), [(2, {"max_tool_calls": 1}), (1, {})])
async def test_approved_calls_are_bounded(
    gateway: Gateway, calls: Path, monkeypatch: pytest.MonkeyPatch, bound: int, most: Json
) -> None:
    monkeypatch.setattr(tool_loop, "MAX_APPROVED", bound)
    response = await ask(gateway, "It is.", approval=None, input=approved("a", "b"), **most)
    made = [item for item in response.json["output"] if item["type"] == "mcp_call"]
    assert [item["error"] for item in made] == [None, TOO_MANY]
    assert ran(calls) == [{"id": 7}]


async def test_an_approved_call_goes_on_without_its_client(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Further requests wait for it, but not for ever."""
    called: list[str] = []

    async def pay(name: str, seconds: str) -> McpOutcome:
        called.append(name)
        await asyncio.sleep(float(seconds))
        return McpOutcome(output="paid")

    monkeypatch.setattr(ran_once, "PAUSE", 0.001)
    servers: Any = SimpleNamespace(call=pay)
    once = RanOnce(servers, "mcpr_1", OwnerSeal(gateway.here.sealer, "me"), MemoryValues())
    for seconds, outcome in (("0.05", McpOutcome(output="paid")), ("9", ran_once.BEGUN)):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(once.call("pay", seconds), 0.01)
        assert await once.call("pay", seconds) == outcome
    assert len(called) == 2


def test_a_tool_is_called_by_its_whole_name_only() -> None:
    names = ["act", "force", "force-act", "shop-act", "shop-force-act", "-force-act", "", None]
    tool = ListedTool("shop-force-act", "", {}, own_names=("force-act",))
    assert [name for name in names if tool.is_called(name)] == ["force-act", "shop-force-act"]


async def test_a_call_that_is_not_approved_does_not_run(gateway: Gateway, calls: Path) -> None:
    items = (await ask(gateway, CALL, approval="always")).json["output"]
    answer = answered(items[1]["id"], approve=False, reason="Too expensive.")
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
    answer = answered(items[1]["id"])
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
