"""Stored responses on the gateway's own route: retrieval, owners, faults."""

from __future__ import annotations

from typing import Any

import pytest

from tests.proxy.server.stored.owners import FRIENDS, keys_of_owners
from tests.proxy.server.stored.response_requests import (
    ITEM,
    USER,
    answered,
    ask,
    code,
    created,
    get,
)
from tests.support.apis.responses_api import LOOK
from tests.support.litellm.own_route import Gateway
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import key_of
from toolgate_proxy import removed
from toolgate_proxy.response_store import memory_store
from toolgate_proxy.response_store.record import StoreUnavailable


@pytest.mark.parametrize("stream", [True, False])
async def test_a_response_is_retrieved_as_it_was_sent(gateway: Gateway, stream: bool) -> None:
    body = await created(gateway, "call", tools=[LOOK], stream=stream, metadata={"a": "b"})
    assert body["store"] is True
    assert (await get(gateway, body["id"])).json == body


async def test_only_the_owner_has_access(gateway: Gateway) -> None:
    keys = keys_of_owners(gateway)
    for owner, friendly in FRIENDS.items():
        body = await created(gateway, key=keys[owner])
        reference = [{"type": "item_reference", "id": body["output"][0]["id"]}, USER]
        for name, key in keys.items():
            statuses = [
                (await get(gateway, body["id"], key=key)).status,
                (await get(gateway, f"{body['id']}/input_items", key=key)).status,
                (await ask(gateway, reference, key)).status,
                (await ask(gateway, "next", key, previous_response_id=body["id"])).status,
            ]
            assert statuses == ([200] * 4 if name in friendly else [404, 404, 404, 400]), name
        for name in sorted(keys, key=lambda name: name in friendly):
            deleted = await get(gateway, body["id"], "DELETE", keys[name])
            assert (deleted.status == 200) == (name == next(n for n in keys if n in friendly)), name


@pytest.mark.parametrize("stream", [True, False])
async def test_only_responses_of_the_background_are_retrieved_as_a_stream(
    gateway: Gateway, stream: bool
) -> None:
    body = await created(gateway, stream=stream)
    for params, param in (
        ({"stream": "true"}, "stream"),
        ({"stream": "yes"}, "stream"),
        ({"starting_after": 1}, "starting_after"),
    ):
        refused = await get(gateway, body["id"], **params)
        assert code(refused) == (400, "invalid_request", param)


async def test_without_redis_no_response_is_generated_in_the_background(gateway: Gateway) -> None:
    refused = await ask(gateway, background=True)
    assert code(refused) == (400, "unsupported_parameter", "background")
    assert "TOOLGATE_REDIS_URL" in refused.json["error"]["message"]
    assert not gateway.backend.requests


async def test_failed_responses_are_not_stored(gateway: Gateway) -> None:
    gateway.backend.scripts["breaks"] = Script(("Hello there",), error_after=2, pause=0.02)
    body = await created(gateway, "breaks", stream=True)
    assert (body["status"], body["store"]) == ("failed", False)
    assert (await get(gateway, body["id"])).status == 404


async def test_input_items_come_in_pages(gateway: Gateway) -> None:
    first = await created(gateway, "call", tools=[LOOK])
    second = await created(gateway, answered(first, "result"), previous_response_id=first["id"])
    given = [
        {"role": "user", "content": "and"},
        {"role": "assistant", "content": "yes"},
        {"role": "developer", "content": [{"type": "input_text", "text": "go on"}]},
        "next",
    ]
    third = await created(gateway, given, previous_response_id=second["id"])
    path = f"{third['id']}/input_items"
    whole = (await get(gateway, path, order="asc")).json
    types = [item["type"] for item in whole["data"]]
    assert types == [
        "message", "reasoning", "function_call", "function_call_output", "message", "message",
        "message", "message", "message",
    ]  # fmt: skip
    for item in whole["data"]:
        ITEM.validate_python(item, strict=True)
    ids = [item["id"] for item in whole["data"]]
    assert len(set(ids)) == len(ids)
    assert whole["data"][-4]["content"] == [{"type": "input_text", "text": "and"}]
    assert (whole["has_more"], whole["object"]) == (False, "list")
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 3}
    while True:
        page = (await get(gateway, path, **query)).json
        seen += [item["id"] for item in page["data"]]
        assert (page["first_id"], page["last_id"]) == (seen[-len(page["data"])], seen[-1])
        if not page["has_more"]:
            break
        query["after"] = page["last_id"]
    assert seen == ids[::-1]
    for wrong in ({"limit": 0}, {"limit": 101}, {"limit": "x"}, {"order": "up"}, {"after": "x"}):
        response = await get(gateway, path, **wrong)
        assert code(response) == (400, "invalid_request", next(iter(wrong)))


async def test_delete_and_cancel(gateway: Gateway) -> None:
    body = await created(gateway)
    refused = await get(gateway, f"{body['id']}/cancel", "POST")
    assert refused.status == 400
    deleted = await get(gateway, body["id"], "DELETE")
    assert deleted.json == {"id": body["id"], "object": "response", "deleted": True}
    for method, rest in (("DELETE", ""), ("GET", ""), ("GET", "/input_items"), ("POST", "/cancel")):
        response = await get(gateway, body["id"] + rest, method)
        assert code(response) == (404, "response_not_found", None)
        assert (await get(gateway, body["id"] + rest, method, "sk-wrong")).status == 401


async def test_an_id_of_the_client_is_stored_once(gateway: Gateway) -> None:
    first = await created(gateway, request_id="mine-._~:@=+")
    assert first["id"] == "resp_mine-._~:@=+"
    again = await created(
        gateway, "next", request_id="mine-._~:@=+", previous_response_id=first["id"]
    )
    assert (again["store"], again["toolgate"]) == (False, {"not_stored": "exists"})
    assert (await get(gateway, first["id"])).json == first


@pytest.mark.parametrize("name", ["../x", "a b", "a?b", "a#b", "a%2fb", "ä", ""])
async def test_an_id_that_no_path_can_have_is_refused(gateway: Gateway, name: str) -> None:
    response = await ask(gateway, request_id=name)
    assert code(response) == (400, "invalid_request", "request_id")


async def test_a_response_that_is_too_large_says_so(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_store, "RESPONSE_MAX_BYTES", 100)
    for stream in (True, False):
        body = await created(gateway, stream=stream)
        assert (body["store"], body["toolgate"]) == (False, {"not_stored": "too_large"})


async def test_an_unavailable_store_is_a_503_only_where_it_is_needed(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await created(gateway)

    async def put(*_: Any) -> str:
        return "unavailable"

    async def failing(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("Redis does not respond")

    store = gateway.here.responses._store
    monkeypatch.setattr(store, "put", put)
    for name in ("read", "delete"):
        monkeypatch.setattr(store, name, failing)
    body = await created(gateway)
    assert (body["store"], body["toolgate"]) == (False, {"not_stored": "unavailable"})
    assert (await created(gateway, store=False)).get("toolgate") is None
    refused = await ask(gateway, previous_response_id=first["id"])
    assert code(refused)[:2] == (503, "responses_unavailable")
    assert refused.headers[b"retry-after"] == b"1"
    for method, rest in (("DELETE", ""), ("GET", ""), ("GET", "/input_items"), ("POST", "/cancel")):
        response = await get(gateway, first["id"] + rest, method)
        assert code(response)[:2] == (503, "responses_unavailable")


@pytest.mark.parametrize("name", ["\ud800", "resp_\0", "resp_" + "a" * 251, "../x", "resp_*"])
async def test_hostile_ids_are_unknown(gateway: Gateway, name: str) -> None:
    refused = await ask(gateway, previous_response_id=name)
    assert code(refused) == (400, "previous_response_not_found", "previous_response_id")
    for given in (f"msg_{name}_0", name):
        response = await ask(gateway, [{"type": "item_reference", "id": given}])
        assert code(response) == (404, "item_not_found", "input[0].id")


async def test_invalid_requests_stay_400s(gateway: Gateway) -> None:
    first = await created(gateway)
    for params, param in (
        ({"given": 5}, "input"),
        ({"given": []}, "input"),
        ({"given": ""}, "input"),
        ({"given": [{"type": "message", "role": "x", "content": "y"}]}, "input[0].role"),
        ({"previous_response_id": 5}, "previous_response_id"),
        ({"previous_response_id": ""}, "previous_response_id"),
        ({"store": "yes"}, "store"),
        ({"background": True, "store": False}, "background"),
        ({"given": [{"type": "item_reference"}]}, "input[0].type"),
    ):
        response = await ask(gateway, **{"previous_response_id": first["id"], **params})
        assert (response.status, response.json["error"]["param"]) == (400, param), response.json


async def test_reads_count_against_the_limits_of_a_key(gateway: Gateway) -> None:
    sent = "sk-a-key-with-a-limit-01"
    gateway.add_key(sent, key_of(sent, rpm=3))
    body = await created(gateway, "hi", sent)
    statuses = [(await get(gateway, body["id"], key=sent)).status for _ in range(3)]
    assert statuses == [200, 200, 429]


@pytest.mark.parametrize("unknown", ["refuse", "ignore"])
async def test_a_removed_conversation_is_refused_with_its_replacement(
    gateway: Gateway, unknown: str
) -> None:
    gateway.configure(unknown_parameters=unknown)
    refused = await ask(gateway, conversation="conv_1")
    assert code(refused) == (400, "unsupported_parameter", "conversation")
    assert "`previous_response_id`" in refused.json["error"]["message"]


@pytest.mark.parametrize("path", removed.PATHS)
@pytest.mark.parametrize("rest", ["", "/conv_1/items"])
async def test_a_removed_path_is_refused_with_its_replacement(
    gateway: Gateway, path: str, rest: str
) -> None:
    for prefix in ("/v1", "/openai/v1", ""):
        response = await gateway.ask({}, path=f"{prefix}{path}{rest}")
        assert code(response) == (404, "route_not_found", None)
        assert response.json["error"]["message"] == removed.PATHS[path]
    assert (await gateway.ask({}, path=f"/v1{path}{rest}", key="sk-wrong")).status == 401
