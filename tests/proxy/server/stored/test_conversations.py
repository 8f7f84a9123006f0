"""Stored conversations on the gateway's own route: items, owners, faults."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest

from tests.proxy.server.stored.conversation_requests import (
    CONVERSATIONS,
    RESPONSES,
    TOOLS,
    USER,
    ask,
    code,
    created,
    listed,
    send,
)
from tests.proxy.server.stored.owners import FRIENDS, keys_of_owners
from tests.support.litellm.own_route import MASTER, Gateway
from tests.support.servers.virtual_keys import key_of
from toolgate_proxy.response_store.sealed_store import StoreUnavailable


async def test_a_conversation_is_updated_and_deleted(gateway: Gateway) -> None:
    name = await created(gateway, metadata={"a": "b"})
    found = (await send(gateway, "GET", name)).json
    assert (found["object"], found["metadata"]) == ("conversation", {"a": "b"})
    updated = await send(gateway, "POST", name, {"metadata": {"c": "d"}})
    assert updated.json == {**found, "metadata": {"c": "d"}}
    assert (await send(gateway, "GET", name)).json == updated.json
    assert (await send(gateway, "POST", name, {"metadata": None})).json["metadata"] == {}
    deleted = await send(gateway, "DELETE", name)
    assert deleted.json == {"id": name[1:], "object": "conversation.deleted", "deleted": True}
    missing = (404, "conversation_not_found", "conversation")
    for method, path, body in (
        ("GET", name, None),
        ("POST", name, {"metadata": {}}),
        ("DELETE", name, None),
        ("GET", f"{name}/items", None),
        ("POST", f"{name}/items", {"items": [USER]}),
        ("GET", f"{name}/items/x", None),
        ("DELETE", f"{name}/items/x", None),
    ):
        assert code(await send(gateway, method, path, body)) == missing, (method, path)
    assert code(await ask(gateway, name)) == missing


async def test_items_are_added_listed_and_deleted(gateway: Gateway) -> None:
    name = await created(gateway)
    added = await send(
        gateway,
        "POST",
        f"{name}/items",
        {
            "items": [
                USER,
                {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "seen"},
            ]
        },
    )
    assert added.status == 200
    items = await listed(gateway, name)
    assert added.json["data"] == items
    assert [item["status"] for item in items] == ["completed"] * 3
    pages: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        page = (await send(gateway, "GET", f"{name}/items", **query)).json
        pages += [item["id"] for item in page["data"]]
        if not page["has_more"]:
            break
        query["after"] = page["last_id"]
    assert pages == [item["id"] for item in reversed(items)]
    one = await send(gateway, "GET", f"{name}/items/{items[1]['id']}")
    assert one.json == items[1]
    deleted = await send(gateway, "DELETE", f"{name}/items/{items[2]['id']}")
    assert deleted.json["id"] == name[1:]
    gone = await send(gateway, "GET", f"{name}/items/{items[2]['id']}")
    assert code(gone) == (404, "item_not_found", None)
    assert await listed(gateway, name) == items[:2]
    # A call whose result was deleted has none in the prompt.
    assert (await ask(gateway, name, "next")).status == 200
    assert [each["role"] for each in gateway.backend.messages()] == [
        "user", "assistant", "tool", "user",
    ]  # fmt: skip


async def test_ids_of_items_stay_and_are_unique(gateway: Gateway) -> None:
    first = (await gateway.ask({"model": "tiny", "input": "hi"}, path=RESPONSES, key=MASTER)).json
    message = first["output"][0]
    reference = {"type": "item_reference", "id": message["id"]}
    name = await created(gateway, USER, message, reference, {**USER, "id": ""})
    ids = [item["id"] for item in await listed(gateway, name)]
    assert ids[1] == message["id"]
    assert len(set(ids)) == 4
    assert all(ids)


async def test_encrypted_reasoning_is_included_on_request(gateway: Gateway) -> None:
    name = await created(gateway)
    await ask(gateway, name, "call", **TOOLS)
    include = {"include[]": "reasoning.encrypted_content", "order": "asc"}
    items = (await send(gateway, "GET", f"{name}/items", **include)).json["data"]
    assert items[1]["encrypted_content"]
    one = await send(gateway, "GET", f"{name}/items/{items[1]['id']}", **include)
    assert one.json["encrypted_content"]
    assert "encrypted_content" not in (await listed(gateway, name))[1]


async def test_the_sdk_keeps_a_session_in_a_conversation(gateway: Gateway) -> None:
    """What OpenAIConversationsSession of the Agents SDK does: create, list, add, pop, clear."""
    transport = httpx.ASGITransport(gateway._app)
    async with openai.AsyncOpenAI(
        api_key=MASTER,
        base_url="http://gateway/v1",
        http_client=httpx.AsyncClient(transport=transport),
    ) as client:
        session = (await client.conversations.create(items=[])).id
        items = client.conversations.items
        assert [each async for each in items.list(session, order="asc")] == []
        response = await client.responses.create(model="tiny", input="hi")
        said: Any = [
            {"role": "user", "content": "hi"},
            *(each.to_dict() for each in response.output),
        ]
        await items.create(session, items=said)
        found = [each async for each in items.list(session, order="asc", limit=1)]
        assert [each.type for each in found] == ["message", "message"]
        later = await client.responses.create(model="tiny", input="next", conversation=session)
        assert later.conversation is not None
        assert later.conversation.id == session
        last = (await items.list(session, limit=1, order="desc")).data[0]
        assert last.id is not None
        assert last.id == later.output[0].id
        await items.delete(last.id, conversation_id=session)
        assert len([each async for each in items.list(session)]) == 3
        await client.conversations.update(session, metadata={"a": "b"})
        assert (await client.conversations.retrieve(session)).metadata == {"a": "b"}
        await client.conversations.delete(session)
        with pytest.raises(openai.NotFoundError):
            await client.conversations.retrieve(session)


async def test_both_spellings_of_paths(gateway: Gateway) -> None:
    name = await created(gateway)
    for prefix in ("", "/openai/v1"):
        found = await gateway.ask(
            b"", path=f"{prefix}/conversations{name}", method="GET", key=MASTER
        )
        assert found.json["id"] == name[1:]
    refused = await send(gateway, "PUT", name)
    assert code(refused) == (405, "method_not_allowed", None)
    assert (await gateway.ask(b"", path=CONVERSATIONS, key=MASTER)).status == 200  # an empty body
    assert not gateway.host.passed


async def test_only_the_owner_has_access(gateway: Gateway) -> None:
    keys = keys_of_owners(gateway)
    for owner, friendly in FRIENDS.items():
        conversation = await created(gateway, USER, key=keys[owner])
        item = (await listed(gateway, conversation, keys[owner]))[0]["id"]
        for name, key in keys.items():
            statuses = [
                (await send(gateway, "GET", conversation, key=key)).status,
                (await send(gateway, "GET", f"{conversation}/items", key=key)).status,
                (await send(gateway, "GET", f"{conversation}/items/{item}", key=key)).status,
                (await send(gateway, "POST", conversation, {"metadata": {}}, key=key)).status,
                (await ask(gateway, conversation, "next", key=key)).status,
            ]
            assert set(statuses) == {200 if name in friendly else 404}, (owner, name)
            if name not in friendly:
                assert (await send(gateway, "DELETE", conversation, key=key)).status == 404
        assert (await send(gateway, "GET", conversation, key="sk-wrong")).status == 401


async def test_operations_on_responses_do_not_find_conversations(gateway: Gateway) -> None:
    name = await created(gateway, USER)
    for path in (name, f"/conversations{name}", f"/conversations%2F{name[1:]}"):
        for method in ("GET", "DELETE"):
            found = await gateway.ask(b"", path=RESPONSES + path, method=method, key=MASTER)
            assert found.status == 404
    for previous in (name[1:], f"conversations{name}"):
        body = {"model": "tiny", "input": "hi", "previous_response_id": previous}
        refused = await gateway.ask(body, path=RESPONSES, key=MASTER)
        assert code(refused) == (400, "previous_response_not_found", "previous_response_id")
    assert (await send(gateway, "GET", name)).status == 200


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("", {"items": 5}, "items"),
        ("", {"items": [{"role": "x", "content": "y"}]}, "items[0].role"),
        ("", {"items": [USER, {"type": "function_call_output", "call_id": "c", "output": "d"}]},
         "items[1].call_id"),
        ("", {"items": [{"type": "item_reference", "id": "msg_1"}]}, "items[0].id"),
        ("", {"metadata": {"a": 1}}, "metadata"),
        ("", {"model": "tiny"}, "model"),
        ("/items", {"items": []}, "items"),
        ("/items", {}, "items"),
        ("/update", {}, "metadata"),
        ("/update", {"items": [USER], "metadata": {}}, "items"),
    ],
)  # fmt: skip
async def test_invalid_bodies_name_the_field(
    gateway: Gateway, path: str, body: dict[str, Any], param: str
) -> None:
    name = await created(gateway) if path else ""
    response = await send(gateway, "POST", name + path.removesuffix("/update"), body)
    assert (response.status // 100, response.json["error"]["param"]) == (4, param), response.json
    if path:
        assert await listed(gateway, name) == []


async def test_what_a_response_can_not_contain_is_refused(gateway: Gateway) -> None:
    for content in (b'"cut \\ud83d"', b"[" * 300 + b"]" * 300):
        body = b'{"items": [{"type": "web_search_call", "x": ' + content + b"}]}"
        assert code(await send(gateway, "POST", "", body))[:2] == (400, "invalid_request")


async def test_an_unavailable_store_is_a_503(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = await created(gateway, USER)

    async def failing(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("Redis does not respond")

    for operation in ("read", "hold", "delete"):
        monkeypatch.setattr(gateway.here.responses._store, operation, failing)
    unavailable = (503, "responses_unavailable")
    for method, path, body in (
        ("GET", name, None),
        ("POST", name, {"metadata": {}}),
        ("DELETE", name, None),
        ("GET", f"{name}/items", None),
        ("POST", f"{name}/items", {"items": [USER]}),
    ):
        assert code(await send(gateway, method, path, body))[:2] == unavailable
    assert code(await ask(gateway, name))[:2] == unavailable
    assert not gateway.backend.requests


async def test_requests_for_conversations_count_under_the_limits_of_a_key(
    gateway: Gateway,
) -> None:
    sent = "sk-a-key-with-a-limit-01"
    gateway.add_key(sent, key_of(sent, rpm=2))
    name = await created(gateway, key=sent)
    statuses = [(await send(gateway, "GET", name, key=sent)).status for _ in range(2)]
    assert statuses == [200, 429]
