"""Responses that continue stored ones, on the gateway's own route."""

from __future__ import annotations

from typing import Any

import pytest

from tests.proxy.server.stored.response_requests import (
    ENCRYPTED,
    USER,
    answered,
    ask,
    code,
    created,
    get,
    prompt,
)
from tests.support.apis.responses_api import LOOK
from tests.support.litellm.own_route import MASTER, Gateway
from tests.support.servers.script import Script, call
from tests.support.servers.virtual_keys import key_of
from toolgate_proxy.server.response_headers import own_headers


@pytest.mark.parametrize("stream", [True, False])
async def test_a_patch_is_continued_by_id_and_by_reference(gateway: Gateway, stream: bool) -> None:
    operation = {"type": "delete_file", "path": "a.py"}
    patch = call("apply_patch", {"operation": operation})
    gateway.backend.scripts["patch"] = Script((patch,))
    rules: dict[str, Any] = {"tools": [{"type": "apply_patch"}]}
    first = await created(gateway, "patch", stream=stream, **rules)
    (item,) = first["output"]
    assert item["operation"] == operation
    done = {"type": "apply_patch_call_output", "call_id": item["call_id"],
            "status": "completed", "output": "result"}  # fmt: skip
    await created(gateway, [done], previous_response_id=first["id"], **rules)
    by_id = prompt(gateway)
    referred = {"type": "item_reference", "id": item["id"]}
    said = {"role": "user", "content": "patch"}
    await created(gateway, [said, referred, done], **rules)
    assert prompt(gateway) == by_id
    assert [each["role"] for each in by_id] == ["user", "assistant", "tool"]


async def test_a_tool_loop_by_id_has_the_prompt_of_the_whole_input(gateway: Gateway) -> None:
    """Three turns, once by `previous_response_id` and once with all items in `input`."""
    rules: dict[str, Any] = {"tools": [LOOK], "instructions": "Be brief."}
    first = await created(gateway, "call", **rules)
    results = answered(first, "result")
    second = await created(gateway, results, previous_response_id=first["id"], **rules)
    third = await created(gateway, "next", previous_response_id=second["id"], **rules)
    by_id = prompt(gateway)
    whole = [{"role": "user", "content": "call"}, *first["output"], *results, *second["output"]]
    await created(gateway, [*whole, {"role": "user", "content": "next"}], store=False, **rules)
    assert prompt(gateway) == by_id
    assert [each["role"] for each in by_id] == [
        "system", "user", "assistant", "tool", "assistant", "user",
    ]  # fmt: skip
    assert third["previous_response_id"] == second["id"]


async def test_instructions_are_not_inherited(gateway: Gateway) -> None:
    first = await created(gateway, instructions="Speak French.")
    await created(gateway, "next", previous_response_id=first["id"])
    assert [each["role"] for each in prompt(gateway)] == ["user", "assistant", "user"]


async def test_two_conversations_may_continue_one_response(gateway: Gateway) -> None:
    first = await created(gateway)
    for _ in range(2):
        await created(gateway, "next", previous_response_id=first["id"])
        assert len(prompt(gateway)) == 3


async def test_items_are_referred_to_by_their_ids(gateway: Gateway) -> None:
    first = await created(gateway, "call", tools=[LOOK])
    listed = (await get(gateway, f"{first['id']}/input_items")).json["data"]
    references = [{"type": "item_reference", "id": item["id"]} for item in first["output"]]
    asked = [{"id": listed[0]["id"]}, *references, *answered(first, "result")]
    second = await created(gateway, asked, tools=[LOOK])
    assert [each["role"] for each in prompt(gateway)] == ["user", "assistant", "tool"]
    assert prompt(gateway)[1]["reasoning_content"] == "Hm, let me look"
    assert (await get(gateway, first["id"], "DELETE")).status == 200
    await created(gateway, "next", previous_response_id=second["id"])  # it has copies of them
    assert len(prompt(gateway)) == 5


async def test_what_is_not_stored_can_not_be_continued(gateway: Gateway) -> None:
    unstored = await created(gateway, store=False)
    assert unstored["store"] is False
    for previous in (unstored["id"], "resp_unknown", "x"):
        response = await ask(gateway, previous_response_id=previous)
        assert code(response) == (400, "previous_response_not_found", "previous_response_id")
        assert (await get(gateway, previous)).status == 404
    reference = [{"type": "item_reference", "id": unstored["output"][0]["id"]}]
    for given in (reference, [{"type": "item_reference", "id": "msg_1"}]):
        assert code(await ask(gateway, [USER, *given])) == (404, "item_not_found", "input[1].id")
    assert not gateway.here.responses._store._owners["master key"].responses  # type: ignore[attr-defined]


async def test_a_conversation_without_a_turn_is_refused(gateway: Gateway) -> None:
    first = await created(gateway)
    second = await created(gateway, "next", previous_response_id=first["id"])
    third = await created(gateway, "next", previous_response_id=second["id"])
    await get(gateway, second["id"], "DELETE")
    refused = await ask(gateway, previous_response_id=third["id"])
    assert code(refused) == (400, "previous_response_not_found", "previous_response_id")
    assert second["id"] in refused.json["error"]["message"]
    assert (await get(gateway, third["id"])).status == 200
    assert (await get(gateway, f"{third['id']}/input_items")).status == 404


async def test_a_cut_call_can_be_continued(gateway: Gateway) -> None:
    begun = call("look", {"a": "b" * 60})[:-30]
    gateway.backend.scripts["cut"] = Script((begun,), finish="length")
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    cut = await created(gateway, "cut", tools=[LOOK | {"parameters": schema}])
    assert cut["status"] == "incomplete"
    assert (await get(gateway, cut["id"])).json == cut
    response = await ask(gateway, "next", previous_response_id=cut["id"])
    assert response.status == 200
    assert [each["role"] for each in prompt(gateway)] == ["user", "assistant", "tool", "user"]
    assert prompt(gateway)[1]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert own_headers(response.context)["x-toolgate-history"] == (
        "arguments=previous_response_id.arguments; no_result=previous_response_id"
    )
    await created(gateway, "next", previous_response_id=response.json["id"])
    assert len(prompt(gateway)) == 6


@pytest.mark.parametrize("summary", [None, "auto"])
async def test_reasoning_is_encrypted_on_request(gateway: Gateway, summary: str | None) -> None:
    gateway.add_key("sk-a-key-of-a-team-0001", key_of("x", team="a"))
    asked: dict[str, Any] = {"include": [ENCRYPTED], "store": False}
    if summary:
        asked["reasoning"] = {"summary": summary}
    whole = await created(gateway, "thought", **asked)
    streamed = await created(gateway, "thought", stream=True, **asked)
    for body in (whole, streamed):
        item = body["output"][0]
        assert "think" not in item["encrypted_content"]
        bare = {"type": "reasoning", "summary": [], "encrypted_content": item["encrypted_content"]}
        await created(gateway, [USER, bare, body["output"][1], USER], store=False)
        assert prompt(gateway)[1]["reasoning_content"] == "Let me think"
        changed = bare | {"encrypted_content": item["encrypted_content"][:-6] + "AAAAAA"}
        foreign = bare | {"encrypted_content": "gAAAAABo"}
        for wrong, key in ((changed, MASTER), (foreign, MASTER), (bare, "sk-a-key-of-a-team-0001")):
            response = await ask(gateway, [USER, wrong, body["output"][1], USER], key)
            assert own_headers(response.context)["x-toolgate-history"] == (
                "left_out=input[1].encrypted_content"
            )
            assert "reasoning_content" not in prompt(gateway)[1]
    plain = await created(gateway, "thought")
    assert "encrypted_content" not in plain["output"][0]
    later = (await get(gateway, plain["id"], **{"include[]": ENCRYPTED})).json["output"][0]
    await created(gateway, [USER, {k: v for k, v in later.items() if k != "content"}, USER])
    assert prompt(gateway)[1]["reasoning_content"] == "Let me think"
