"""Stored responses on the gateway's own route: retrieved, continued, their owners, faults."""

from urllib.parse import urlencode

import pytest
from openai.types.responses import ResponseItem
from pydantic import TypeAdapter

from tests.support.apis.read_responses import read_events
from tests.support.apis.responses_api import LOOK, check_response
from tests.support.litellm.own_route import MASTER
from tests.support.servers.script import Script, call
from tests.support.servers.virtual_keys import key_of
from toolgate_proxy.response_store import sealed_stores
from toolgate_proxy.response_store.record import unavailable
from toolgate_proxy.server import stored_responses
from toolgate_proxy.server.request_scope import own_headers


@pytest.fixture(autouse=True)
def scripts(gateway):
    gateway.backend.scripts |= {
        "call": Script((f"<think>Hm, let me look</think>{call('look', {})}",)),
        "thought": Script(("<think>Let me think</think>Hello there",)),
        "result": Script(("It is there",)),
        "next": Script(("And so on",)),
        "cut": Script(("Hello the",), finish="length"),
    }


TEAMS = {"one": None, "other": None, "member": "a", "mate": "a", "rival": "b"}
FRIENDS = {"one": ["one"], "member": ["member", "mate"], "admin": ["admin"]}
"""By owner: who has access to its data."""


def keys_of_owners(gateway):
    """Create the keys. Return them by name, with the master key as `admin`."""
    keys = {name: f"sk-a-key-of-{name}-000001" for name in TEAMS}
    made = [key_of(keys[name], name, team=team) for name, team in TEAMS.items()]
    gateway.here.key_sync.key_cache.replace(made)
    return {**keys, "admin": MASTER}


PATH = "/v1/responses"
ITEM = TypeAdapter(ResponseItem)
USER = {"role": "user", "content": "hi"}
ENCRYPTED = "reasoning.encrypted_content"


async def ask(gateway, given="hi", key=MASTER, **params):
    body = {"model": "tiny", "input": given, **params}
    return await gateway.ask(body, path=PATH, key=key)


async def created(gateway, given="hi", key=MASTER, **params):
    response = await ask(gateway, given, key, **params)
    assert response.status == 200, response.json
    if params.get("stream"):
        return read_events(b"".join(response.bodies))[-1]["response"]
    check_response(response.json)
    return response.json


async def get(gateway, path, method="GET", key=MASTER, **query):
    return await gateway.ask(
        b"", path=f"{PATH}/{path}", method=method, key=key, query=urlencode(query, doseq=True)
    )


def prompt(gateway):
    return gateway.backend.messages()


def code(response):
    error = response.json["error"]
    return response.status, error["code"], error["param"]


def answered(body, text):
    return [
        {"type": "function_call_output", "call_id": item["call_id"], "output": text}
        for item in body["output"]
        if item["type"] == "function_call"
    ]


async def test_a_response_is_retrieved_as_it_was_sent(gateway):
    for stream in (True, False):
        body = await created(gateway, "call", tools=[LOOK], stream=stream, metadata={"a": "b"})
        assert body["store"] is True
        assert (await get(gateway, body["id"])).json == body


async def test_only_the_owner_has_access(gateway):
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


async def test_failed_repeated_and_too_large_responses_are_not_stored(gateway, monkeypatch):
    gateway.backend.scripts["breaks"] = Script(("Hello there",), error_after=2, pause=0.02)
    body = await created(gateway, "breaks", stream=True)
    assert (body["status"], body["store"]) == ("failed", False)
    assert (await get(gateway, body["id"])).status == 404
    first = await created(gateway, request_id="mine-._~:@=+")
    assert first["id"] == "resp_mine-._~:@=+"
    again = await created(
        gateway, "next", request_id="mine-._~:@=+", previous_response_id=first["id"]
    )
    assert (again["store"], again["toolgate"]) == (False, {"not_stored": "exists"})
    assert (await get(gateway, first["id"])).json == first
    with monkeypatch.context() as mixed:  # with models of other providers, whose ids have any form
        mixed.setattr(stored_responses, "is_toolgate", lambda _: False)
        assert (await get(gateway, first["id"])).json == first
        theirs = await get(gateway, "resp_mine")
        assert theirs.status == 299  # LiteLLM answers
    monkeypatch.setattr(sealed_stores, "RESPONSE_MAX_BYTES", 100)
    for stream in (True, False):
        body = await created(gateway, stream=stream)
        assert (body["store"], body["toolgate"]) == (False, {"not_stored": "too_large"})


async def test_input_items_come_in_pages(gateway):
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
    seen = []
    query = {"limit": 3}
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


async def test_delete_and_cancel(gateway):
    body = await created(gateway)
    refused = await get(gateway, f"{body['id']}/cancel", "POST")
    assert refused.status == 400
    deleted = await get(gateway, body["id"], "DELETE")
    assert deleted.json == {"id": body["id"], "object": "response", "deleted": True}
    for method, rest in (("DELETE", ""), ("GET", ""), ("GET", "/input_items"), ("POST", "/cancel")):
        response = await get(gateway, body["id"] + rest, method)
        assert code(response) == (404, "response_not_found", None)
        assert (await get(gateway, body["id"] + rest, method, "sk-wrong")).status == 401


async def test_an_unavailable_store_is_a_503_only_where_it_is_needed(gateway, monkeypatch):
    first = await created(gateway)

    async def put(*_):
        return "unavailable"

    async def failing(*_, **__):
        raise unavailable("Redis does not respond")

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


HOSTILE = ("\ud800", "resp_\0", "resp_" + "a" * 251, "../x", "resp_*")


async def test_invalid_requests_stay_4xx(gateway):
    first = await created(gateway)
    no_item = (404, "item_not_found", "input[0].id")
    unknown = (400, "previous_response_not_found", "previous_response_id")
    for params, expected in (
        ({"given": 5}, "input"),
        ({"given": []}, "input"),
        ({"given": ""}, "input"),
        ({"given": [{"type": "message", "role": "x", "content": "y"}]}, "input[0].role"),
        ({"previous_response_id": 5}, "previous_response_id"),
        ({"previous_response_id": ""}, "previous_response_id"),
        ({"store": "yes"}, "store"),
        ({"background": True, "store": False}, "background"),
        ({"background": True}, (400, "unsupported_parameter", "background")),  # without Redis
        ({"given": [{"type": "item_reference"}]}, "input[0].type"),
        *(({"previous_response_id": name}, unknown) for name in HOSTILE),
        *(
            ({"given": [{"type": "item_reference", "id": name}]}, no_item)
            for name in (*HOSTILE, *(f"msg_{name}_0" for name in HOSTILE))
        ),
        *(
            ({"request_id": name}, (400, "invalid_request", "request_id"))
            for name in ("../x", "a b", "a?b", "a#b", "a%2fb", "ä", "")
        ),
    ):
        response = await ask(gateway, **{"previous_response_id": first["id"], **params})
        if isinstance(expected, str):
            expected = (400, code(response)[1], expected)
        assert code(response) == expected, (params, response.json)
    assert len(gateway.backend.requests) == 1
    for query in ({"stream": "true"}, {"stream": "yes"}, {"starting_after": 1}):  # not background
        refused = await get(gateway, first["id"], **query)
        assert code(refused) == (400, "invalid_request", next(iter(query)))


async def test_reads_count_against_the_limits_of_a_key(gateway):
    sent = "sk-a-key-with-a-limit-01"
    gateway.add_key(sent, key_of(sent, rpm=3))
    body = await created(gateway, "hi", sent)
    statuses = [(await get(gateway, body["id"], key=sent)).status for _ in range(3)]
    assert statuses == [200, 200, 429]


async def test_a_conversation_is_refused(gateway):
    for unknown in ("refuse", "ignore"):
        gateway.configure(unknown_parameters=unknown)
        refused = await ask(gateway, conversation="conv_1")
        assert code(refused) == (400, "unsupported_parameter", "conversation")
        assert "`previous_response_id`" in refused.json["error"]["message"]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_patch_is_continued_by_id_and_by_reference(gateway, stream):
    operation = {"type": "delete_file", "path": "a.py"}
    patch = call("apply_patch", {"operation": operation})
    gateway.backend.scripts["patch"] = Script((patch,))
    rules = {"tools": [{"type": "apply_patch"}]}
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


async def test_a_tool_loop_by_id_has_the_prompt_of_the_whole_input(gateway):
    """Three turns, once by `previous_response_id` and once with all items in `input`."""
    rules = {"tools": [LOOK], "instructions": "Be brief."}
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


async def test_two_conversations_may_continue_one_response_and_none_without_a_turn(gateway):
    first = await created(gateway, instructions="Speak French.")
    for _ in range(2):
        await created(gateway, "next", previous_response_id=first["id"])
        assert [each["role"] for each in prompt(gateway)] == ["user", "assistant", "user"]
    first = await created(gateway)
    second = await created(gateway, "next", previous_response_id=first["id"])
    third = await created(gateway, "next", previous_response_id=second["id"])
    await get(gateway, second["id"], "DELETE")
    refused = await ask(gateway, previous_response_id=third["id"])
    assert code(refused) == (400, "previous_response_not_found", "previous_response_id")
    assert second["id"] in refused.json["error"]["message"]
    assert (await get(gateway, third["id"])).status == 200
    assert (await get(gateway, f"{third['id']}/input_items")).status == 404


async def test_items_are_referred_to_by_their_ids(gateway):
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


async def test_what_is_not_stored_can_not_be_continued(gateway):
    unstored = await created(gateway, store=False)
    assert unstored["store"] is False
    for previous in (unstored["id"], "resp_unknown", "x"):
        response = await ask(gateway, previous_response_id=previous)
        assert code(response) == (400, "previous_response_not_found", "previous_response_id")
        assert (await get(gateway, previous)).status == 404
    reference = [{"type": "item_reference", "id": unstored["output"][0]["id"]}]
    for given in (reference, [{"type": "item_reference", "id": "msg_1"}]):
        assert code(await ask(gateway, [USER, *given])) == (404, "item_not_found", "input[1].id")
    assert not gateway.here.responses._store._owners["master key"].responses


async def test_a_cut_call_can_be_continued(gateway):
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
async def test_reasoning_is_encrypted_on_request(gateway, summary):
    gateway.add_key("sk-a-key-of-a-team-0001", key_of("x", team="a"))
    asked = {"include": [ENCRYPTED], "store": False}
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
