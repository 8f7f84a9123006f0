"""Responses of the background on the gateway's own route: polled, followed, cancelled."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import httpx
import openai
import pytest
import uvicorn

from tests.proxy.server.background.requests import (
    ACTIVE,
    ask,
    code,
    ended,
    events_of,
    get,
    queued,
)
from tests.support.apis.responses_api import LOOK, check_event, check_response
from tests.support.litellm.own_route import MASTER, Gateway
from tests.support.servers.redis_server import RedisServer, response_store
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import key_of
from tests.support.waiting import until
from toolgate_proxy.server import authorization
from toolgate_proxy.server.background import run
from toolgate_proxy.server.background.run import RUNNING
from toolgate_proxy.server.request_scope import RequestScope


async def test_a_response_is_polled_until_it_is_completed(gateway: Gateway, script: Script) -> None:
    shown = await queued(gateway, metadata={"a": "b"})
    await until(lambda: gateway.backend.running)
    polled = (await get(gateway, shown["id"])).json
    assert polled["status"] in ACTIVE
    assert {**polled, "status": "queued"} == shown
    listed = (await get(gateway, shown["id"], "/input_items")).json["data"]
    assert [item["content"][0]["text"] for item in listed] == ["wait"]
    script.hang_after = None
    last = await ended(gateway, shown["id"])
    check_response(last)
    assert last["status"] == "completed"
    assert [item["type"] for item in last["output"]] == ["reasoning", "message", "function_call"]
    assert {**last, "status": "queued", "output": [], "usage": None, "completed_at": None} == shown
    await until(lambda: not RUNNING)


async def test_it_has_the_output_of_another_response(gateway: Gateway, script: Script) -> None:
    script.hang_after = None
    plain = (await ask(gateway, background=False)).json
    last = await ended(gateway, (await queued(gateway))["id"])
    for one, other in zip(plain["output"], last["output"], strict=True):
        for name in ("content", "name", "arguments", "type"):
            assert one.get(name) == other.get(name)
    assert plain["usage"] == last["usage"]


async def test_an_incomplete_response_is_stored(gateway: Gateway) -> None:
    gateway.backend.scripts["cut"] = Script(("Hello the",), finish="length")
    last = await ended(gateway, (await queued(gateway, "cut"))["id"])
    assert (last["status"], last["incomplete_details"]) == (
        "incomplete",
        {"reason": "max_output_tokens"},
    )


async def test_the_stream_is_followed_and_replayed(gateway: Gateway, script: Script) -> None:
    """By the client of the request, by readers while it runs, and by readers after it."""
    asked = asyncio.create_task(ask(gateway, stream=True, request_id="mine"))
    name = "resp_mine"
    await until(lambda: [run for run in RUNNING if run.place])
    early = asyncio.create_task(get(gateway, name, stream="true"))
    await until(lambda: gateway.backend.running)
    later = asyncio.create_task(get(gateway, name, stream="true", starting_after=1))
    await asyncio.sleep(0.1)
    script.hang_after = None
    events = events_of(await asked)
    assert [event["type"] for event in events[:3]] == [
        "response.created", "response.queued", "response.in_progress",
    ]  # fmt: skip
    assert [event["response"]["status"] for event in events[:3]] == [
        "queued", "queued", "in_progress",
    ]  # fmt: skip
    for event in events:
        check_event(event)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["type"] == "response.completed"
    assert events_of(await early) == events
    assert events_of(await later) == events[2:]
    assert await ended(gateway, name) == events[-1]["response"]
    assert events_of(await get(gateway, name, stream="true")) == events
    assert events_of(await get(gateway, name, stream="true", starting_after=4)) == events[5:]


async def test_it_survives_its_client(gateway: Gateway, script: Script) -> None:
    left = await ask(gateway, stream=True, request_id="mine", leave_after=0.2)
    assert events_of(left)[0]["type"] == "response.created"
    assert gateway.backend.running == 1
    script.hang_after = None
    assert (await ended(gateway, "resp_mine"))["status"] == "completed"


@pytest.mark.parametrize("stream", [True, False])
async def test_errors_before_it_is_queued_are_those_of_the_request(
    gateway: Gateway, stream: bool
) -> None:
    for params, expected in (
        ({"given": 5}, (400, "invalid_request", "input")),
        ({"store": False}, (400, "invalid_request", "background")),
        ({"previous_response_id": "resp_x"}, (400, "previous_response_not_found", None)),
        ({"tools": [{"type": "function"}]}, (400, "invalid_tools", "tools[0]")),
        ({"model": "other"}, (404, "model_not_found", None)),
    ):
        refused = await ask(gateway, **{"stream": stream, **params})
        assert code(refused)[:2] == expected[:2], refused.json
    assert code(await ask(gateway, stream="yes")) == (400, "invalid_request", "stream")
    await until(lambda: not RUNNING)
    assert not gateway.backend.requests


async def test_an_id_is_used_once(gateway: Gateway, script: Script) -> None:
    await queued(gateway, request_id="mine")
    assert code(await ask(gateway, request_id="mine")) == (400, "invalid_request", "request_id")
    script.hang_after = None
    assert (await ended(gateway, "resp_mine"))["status"] == "completed"


@pytest.mark.parametrize("fails", ["at once", "later"])
async def test_a_failure_is_stored(gateway: Gateway, fails: str) -> None:
    gateway.backend.scripts["breaks"] = Script(
        ("Hello there",),
        error_status=500 if fails == "at once" else None,
        error={"message": "No.", "code": "backend_failed"},
        error_after=None if fails == "at once" else 2,
        pause=0.02,
    )
    shown = await queued(gateway, "breaks")
    last = await ended(gateway, shown["id"])
    check_response(last)
    assert (last["status"], last["store"]) == ("failed", True)
    assert last["error"]["code"]
    assert bool(last["output"]) == (fails == "later")
    events = events_of(await get(gateway, shown["id"], stream="true"))
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"] == last
    refused = await ask(gateway, "next", previous_response_id=shown["id"])
    assert code(refused) == (400, "invalid_request", "previous_response_id")


async def test_it_is_cancelled(gateway: Gateway, script: Script) -> None:
    shown = await queued(gateway)
    follower = asyncio.create_task(get(gateway, shown["id"], stream="true"))
    await until(lambda: gateway.backend.running)
    cancelled = await get(gateway, shown["id"], "/cancel", "POST")
    check_response(cancelled.json)
    assert (cancelled.status, cancelled.json["status"]) == (200, "cancelled")
    assert await gateway.backend.idle_within(5)
    last = events_of(await follower)[-1]
    assert (last["type"], last["response"]["status"]) == ("response.failed", "cancelled")
    assert (await get(gateway, shown["id"])).json == cancelled.json
    assert (await get(gateway, shown["id"], "/cancel", "POST")).json == cancelled.json
    replayed = events_of(await get(gateway, shown["id"], stream="true"))
    assert replayed[-1]["response"] == cancelled.json
    await until(lambda: not RUNNING)
    assert (await get(gateway, shown["id"], method="DELETE")).status == 200
    assert (await get(gateway, shown["id"])).status == 404


async def test_a_response_that_has_ended_stays_as_it_is(gateway: Gateway, script: Script) -> None:
    script.hang_after = None
    last = await ended(gateway, (await queued(gateway))["id"])
    assert (await get(gateway, last["id"], "/cancel", "POST")).json == last
    continued = await ask(
        gateway, "hi", background=False, previous_response_id=last["id"], store=False
    )
    assert continued.status == 200


async def test_one_in_flight_can_be_neither_deleted_nor_continued(
    gateway: Gateway, script: Script
) -> None:
    shown = await queued(gateway)
    assert (await get(gateway, shown["id"], method="DELETE")).status == 400
    refused = await ask(gateway, "hi", previous_response_id=shown["id"])
    assert code(refused) == (400, "previous_response_not_found", "previous_response_id")


async def test_only_the_owner_has_access(gateway: Gateway, script: Script) -> None:
    assert gateway.here.key_sync is not None
    teams = {"member": "a", "mate": "a", "rival": "b", "other": None}
    keys = {name: f"sk-a-key-of-{name}-000001" for name in teams}
    made = [key_of(keys[name], name, team=team) for name, team in teams.items()]
    gateway.here.key_sync.key_cache.replace(made)
    keys["admin"] = MASTER
    shown = await queued(gateway, key=keys["member"])
    for name, key in keys.items():
        if name in ("member", "mate"):
            assert (await get(gateway, shown["id"], key=key)).status == 200
            continue
        for rest, method in (("", "GET"), ("", "DELETE"), ("/cancel", "POST")):
            assert (await get(gateway, shown["id"], rest, method, key=key)).status == 404
        assert (await get(gateway, shown["id"], stream="true", key=key)).status == 404
    cancelled = await get(gateway, shown["id"], "/cancel", "POST", key=keys["mate"])
    assert cancelled.json["status"] == "cancelled"


async def test_a_reader_whose_key_is_revoked_gets_no_more(
    gateway: Gateway, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authorization, "gateway", lambda: gateway.here)
    assert gateway.here.key_sync is not None
    keys = {name: f"sk-a-key-of-{name}-000001" for name in ("member", "mate")}
    made = [key_of(keys[name], name, team="a") for name in keys]
    gateway.here.key_sync.key_cache.replace(made)
    shown = await queued(gateway, key=keys["member"])
    reader = asyncio.create_task(get(gateway, shown["id"], stream="true", key=keys["mate"]))
    await until(lambda: gateway.backend.running)
    await asyncio.sleep(0.5)
    gateway.here.key_sync.key_cache.replace([made[0]])
    script.hang_after = None
    *events, error = events_of(await reader)
    assert len(events) > 3
    assert (error["type"], error["code"]) == ("error", "invalid_api_key")
    assert error["sequence_number"] == len(events)


async def test_silent_streams_have_keep_alives(gateway: Gateway, script: Script) -> None:
    left = await ask(gateway, stream=True, leave_after=0.5)
    assert b": waiting\n\n" in left.bodies


async def test_the_limits_of_a_key_hold_until_it_ends(gateway: Gateway, script: Script) -> None:
    sent = "sk-a-key-with-a-limit-01"
    gateway.add_key(sent, key_of(sent, max_parallel_requests=1))
    await queued(gateway, key=sent)
    assert (await ask(gateway, key=sent)).status == 429
    script.hang_after = None
    limiter = gateway.here.limiter
    await until(lambda: not limiter.reservations._entries)
    assert (await ask(gateway, key=sent)).status == 200


async def test_without_stored_responses_it_is_refused(
    gateway: Gateway, redis_at_hand: RedisServer
) -> None:
    gateway.here.responses = response_store(redis_at_hand, responses_quota=0)
    assert code(await ask(gateway)) == (400, "unsupported_parameter", "background")


async def test_one_owner_has_few_responses_with_few_bytes_at_once(
    gateway: Gateway, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "MOST_RUNNING", 2)
    gateway.here.bodies.limit = 10_000
    other = "sk-a-key-of-another-0001"
    gateway.add_key(other, key_of(other))
    large = "wait " * 1_600
    gateway.backend.scripts[large] = script
    await queued(gateway, large)
    assert code(await ask(gateway, "wait " * 500))[:2] == (429, "rate_limit_exceeded")
    await queued(gateway)
    refused = await ask(gateway)
    assert code(refused)[:2] == (429, "rate_limit_exceeded")
    assert refused.headers[b"retry-after"]
    await queued(gateway, key=other)


async def test_the_sdk_polls_and_cancels(gateway: Gateway, script: Script) -> None:
    transport = httpx.ASGITransport(gateway._app)
    http = httpx.AsyncClient(transport=transport)
    async with openai.AsyncOpenAI(
        api_key=MASTER, base_url="http://gateway/v1", http_client=http
    ) as client:
        asked: Any = {"model": "tiny", "input": "wait", "tools": [LOOK], "background": True}
        first = await client.responses.create(**asked)
        assert (first.status, first.background) == ("queued", True)
        assert (await client.responses.retrieve(first.id)).status in ACTIVE
        assert (await client.responses.cancel(first.id)).status == "cancelled"
        script.hang_after = None
        second = await client.responses.create(**asked, stream=True)
        events = [event async for event in second]
        assert events[-1].type == "response.completed"
        replayed = await client.responses.retrieve(
            events[-1].response.id, stream=True, starting_after=3
        )
        assert [event.sequence_number async for event in replayed] == list(range(4, len(events)))


async def test_it_survives_a_connection_that_is_closed(gateway: Gateway, script: Script) -> None:
    """Over HTTP: the SDK leaves in the middle of the stream, and goes on from there."""
    config = uvicorn.Config(RequestScope(gateway._app), log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve([listener]))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        async with openai.AsyncOpenAI(api_key=MASTER, base_url=url) as client:
            asked: Any = {"model": "tiny", "input": "wait", "tools": [LOOK], "background": True}
            stream = await client.responses.create(**asked, stream=True)
            seen = [await anext(stream)]
            while seen[-1].type != "response.output_text.delta":
                seen.append(await anext(stream))
            await stream.close()
            name = seen[0].response.id
            assert (await client.responses.retrieve(name)).status == "in_progress"
            script.hang_after = None
            rest = await client.responses.retrieve(
                name, stream=True, starting_after=seen[-1].sequence_number
            )
            seen += [event async for event in rest]
            assert [event.sequence_number for event in seen] == list(range(len(seen)))
            assert seen[-1].type == "response.completed"
            whole = await client.responses.retrieve(name)
            assert whole.to_dict() == seen[-1].response.to_dict()
            polled = await client.responses.create(**asked)
            while polled.status in ACTIVE:
                polled = await client.responses.retrieve(polled.id)
            assert polled.status == "completed"
        server.should_exit = True
        await serving
