"""Turns of stored conversations on the gateway's own route."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.proxy.server.stored.conversation_requests import (
    RESPONSES,
    TOOLS,
    USER,
    ask,
    body_of,
    code,
    created,
    listed,
    send,
)
from tests.support.apis.responses_api import check_response
from tests.support.litellm.own_route import MASTER, Gateway
from tests.support.servers.script import Script
from tests.support.waiting import until


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("store", [True, False])
async def test_turns_have_the_prompt_of_the_whole_input(
    gateway: Gateway, stream: bool, store: bool
) -> None:
    """Three turns, once by `conversation` and once with all items in `input`."""
    more: dict[str, Any] = {**TOOLS, "instructions": "Be brief.", "store": store}
    name = await created(gateway, {"role": "developer", "content": "Look first."})
    first = body_of(await ask(gateway, name, "call", stream=stream, **more))
    check_response(first)
    assert (first["conversation"], first["store"]) == ({"id": name[1:]}, store)
    call_id = first["output"][1]["call_id"]
    result = [{"type": "function_call_output", "call_id": call_id, "output": "result"}]
    second = body_of(await ask(gateway, {"id": name[1:]}, result, stream=stream, **more))
    assert (await ask(gateway, name, "next", stream=stream, **more)).status == 200
    by_conversation = gateway.backend.messages()
    whole = [
        {"role": "developer", "content": "Look first."}, {"role": "user", "content": "call"},
        *first["output"], *result, *second["output"], {"role": "user", "content": "next"},
    ]  # fmt: skip
    await gateway.ask(
        {"model": "tiny", "input": whole, **more, "store": False}, path=RESPONSES, key=MASTER
    )
    assert gateway.backend.messages() == by_conversation
    items = await listed(gateway, name)
    assert [item["type"] for item in items] == [
        "message", "message", "reasoning", "function_call", "function_call_output", "message",
        "message", "message",
    ]  # fmt: skip
    assert items[2:4] == first["output"]
    assert len({item["id"] for item in items}) == len(items)


async def test_an_incomplete_response_is_part_of_its_conversation(gateway: Gateway) -> None:
    name = await created(gateway)
    response = await ask(gateway, name, "cut")
    assert response.json["status"] == "incomplete"
    assert (await listed(gateway, name))[-1] == response.json["output"][0]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_failed_turn_leaves_nothing(gateway: Gateway, stream: bool) -> None:
    gateway.backend.scripts["breaks"] = Script(("Hello there",), error_after=2)
    name = await created(gateway, USER)
    before = await listed(gateway, name)
    await ask(gateway, name, "breaks", stream=stream)
    assert (await ask(gateway, name, [{"role": "x", "content": "y"}])).status == 400
    assert await listed(gateway, name) == before
    assert (await ask(gateway, name, "next")).status == 200


async def test_a_client_that_disconnects_unlocks_the_conversation(gateway: Gateway) -> None:
    gateway.backend.scripts["wait"] = Script(("Hello there",), hang_after=2)
    name = await created(gateway, USER)
    await ask(gateway, name, "wait", stream=True, leave_after=0.1)
    assert len(await listed(gateway, name)) == 1
    assert (await ask(gateway, name, "next")).status == 200
    assert len(await listed(gateway, name)) == 3


async def test_turns_do_not_interleave(gateway: Gateway) -> None:
    """While one runs, all other changes are refused, and reading is not."""
    script = gateway.backend.scripts["wait"] = Script(("Hello there",), hang_after=2)
    name = await created(gateway, USER)
    item = (await listed(gateway, name))[0]["id"]
    first = asyncio.create_task(ask(gateway, name, "wait"))
    await until(lambda: gateway.backend.running)
    locked = (409, "conversation_locked", "conversation")
    assert code(await ask(gateway, name, "next")) == locked
    assert code(await send(gateway, "POST", f"{name}/items", {"items": [USER]})) == locked
    assert code(await send(gateway, "POST", name, {"metadata": {}})) == locked
    assert code(await send(gateway, "DELETE", f"{name}/items/{item}")) == locked
    assert code(await send(gateway, "DELETE", name)) == locked
    assert len(await listed(gateway, name)) == 1
    counted = await gateway.ask(
        {"model": "tiny", "input": "hi", "conversation": name[1:]},
        path=f"{RESPONSES}/input_tokens",
        key=MASTER,
    )
    assert counted.status == 200
    script.hang_after = None
    assert (await first).status == 200
    assert len(await listed(gateway, name)) == 3
    assert (await ask(gateway, name, "next")).status == 200


async def test_parallel_turns_lose_nothing(gateway: Gateway) -> None:
    name = await created(gateway)
    asked = [ask(gateway, name, [USER | {"content": "next"}]) for _ in range(8)]
    statuses = [response.status for response in await asyncio.gather(*asked)]
    assert set(statuses) <= {200, 409}
    items = await listed(gateway, name)
    assert [item["role"] for item in items] == ["user", "assistant"] * statuses.count(200)


async def test_a_response_of_a_conversation_is_continued_by_it_only(gateway: Gateway) -> None:
    name = await created(gateway)
    first = (await ask(gateway, name)).json
    asked = {"model": "tiny", "input": "next", "previous_response_id": first["id"]}
    refused = await gateway.ask(asked, path=RESPONSES, key=MASTER)
    assert code(refused) == (400, "invalid_request", "previous_response_id")
    assert name[1:] in refused.json["error"]["message"]
    both = await ask(gateway, name, previous_response_id=first["id"])
    assert code(both) == (400, "invalid_request", "conversation")


@pytest.mark.parametrize("conversation", [5, "", {}, {"id": 3}, ["conv_1"], "c" * 300])
async def test_invalid_conversations_are_400s(gateway: Gateway, conversation: Any) -> None:
    response = await ask(gateway, conversation)
    # One that is only too long or unknown is looked for.
    assert response.status in (400, 404)
    assert response.json["error"]["param"] == "conversation"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_turn_that_can_not_be_added_fails(
    gateway: Gateway, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = await created(gateway, USER)

    async def replace(*_: Any) -> str:
        return "unavailable"

    with monkeypatch.context() as patch:
        patch.setattr(gateway.here.responses._store, "replace", replace)
        response = await ask(gateway, name, "next", stream=stream)
    if stream:
        failed = body_of(response)
        assert (failed["status"], failed["error"]["code"]) == ("failed", "responses_unavailable")
    else:
        assert code(response)[:2] == (503, "responses_unavailable")
        assert response.headers[b"retry-after"] == b"1"
    assert len(gateway.backend.requests) == 1
    assert len(await listed(gateway, name)) == 1
    assert (await ask(gateway, name, "next")).status == 200


async def test_a_conversation_that_is_dropped_during_a_turn_is_missed(gateway: Gateway) -> None:
    script = gateway.backend.scripts["wait"] = Script(("Hello there",), hang_after=2)
    name = await created(gateway, USER)
    asked = asyncio.create_task(ask(gateway, name, "wait"))
    await until(lambda: gateway.backend.running)
    gateway.here.responses._store._owners.clear()  # type: ignore[attr-defined]
    script.hang_after = None
    assert code(await asked) == (404, "conversation_not_found", "conversation")
