"""Responses of the background of another gateway, of one that ends, and without Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.proxy.server.background.requests import (
    ACTIVE,
    OWNER,
    ask,
    begun,
    code,
    ended,
    events_of,
    get,
    queued,
    running,
)
from tests.support.apis.responses_api import check_response
from tests.support.litellm.own_route import Gateway
from tests.support.servers.redis_server import SECRET, RedisServer, response_store
from tests.support.servers.script import Script
from tests.support.waiting import until
from toolgate_proxy.response_store import redis_store
from toolgate_proxy.response_store.record import StoreUnavailable
from toolgate_proxy.response_store.store import ResponseStore
from toolgate_proxy.server.background import place, run
from toolgate_proxy.server.background.place import Place
from toolgate_proxy.server.background.run import RUNNING, cancel, stop_all


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Place, "lease", 0.4)
    monkeypatch.setattr(run, "PAUSE", 0.02)
    monkeypatch.setattr(redis_store, "TIMEOUT_SECONDS", 0.3)


@pytest.fixture
async def other(redis_at_hand: RedisServer) -> AsyncIterator[ResponseStore]:
    """The store of another gateway."""
    store = response_store(redis_at_hand)
    yield store
    await store.aclose()


async def test_another_gateway_sees_and_cancels_it(
    gateway: Gateway, script: Script, other: ResponseStore
) -> None:
    shown = await begun(gateway)
    follower = asyncio.create_task(get(gateway, shown["id"], stream="true"))
    there = Place(other, OWNER, shown["id"])
    await asyncio.sleep(0.6)  # longer than a lease
    found = await there.find()
    assert found is not None
    assert {**found.body, "status": "queued"} == shown
    assert found.body["status"] in ACTIVE
    job = running(shown["id"])
    RUNNING.clear()  # of the other gateway
    cancelled = await cancel(there)
    assert cancelled is not None
    assert cancelled.body["status"] == "cancelled"
    await until(job.stopped.is_set)
    assert await gateway.backend.idle_within(5)
    assert (await get(gateway, shown["id"])).json == cancelled.body
    assert events_of(await follower)[-1]["response"] == cancelled.body


async def test_another_gateway_follows_it_while_it_is_generated(
    gateway: Gateway, script: Script, other: ResponseStore
) -> None:
    shown = await begun(gateway)
    follower = asyncio.create_task(get(gateway, shown["id"], stream="true"))
    there, parts = Place(other, OWNER, shown["id"]), list[bytes]()
    async for data, number in there.events(-1):
        parts.append(data)
        if number > 6:
            script.hang_after = None  # it ends only now
    assert b"".join(parts) == b"".join(
        body for body in (await follower).bodies if not body.startswith(b":")
    )


async def test_a_gateway_that_dies_leaves_it_as_failed(
    gateway: Gateway, script: Script, other: ResponseStore
) -> None:
    shown = await begun(gateway)
    job = running(shown["id"])
    job._writing.cancel()  # it is dead
    follower = asyncio.create_task(get(gateway, shown["id"], stream="true"))
    last = await ended(gateway, shown["id"])
    check_response(last)
    assert (last["status"], last["error"]["code"]) == ("failed", "gateway_stopped")
    assert events_of(await follower)[-1]["response"] == last
    refused = await ask(gateway, "go on", previous_response_id=shown["id"])
    assert code(refused) == (400, "invalid_request", "previous_response_id")
    found = await Place(other, OWNER, shown["id"]).find()
    assert found is not None
    assert found.body == last


@pytest.mark.parametrize("begun", [True, False])
async def test_a_gateway_that_stops_leaves_it_as_failed_at_once(
    gateway: Gateway, script: Script, begun: bool
) -> None:
    script.queued = 0 if begun else 60
    shown = await queued(gateway)
    follower = asyncio.create_task(get(gateway, shown["id"], stream="true"))
    await until(lambda: gateway.backend.running)
    await stop_all()
    last = (await get(gateway, shown["id"])).json
    assert (last["status"], last["error"]["code"]) == ("failed", "gateway_stopped")
    events = events_of(await follower)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["response"] == last


async def test_what_redis_loses_ends_the_generation(
    gateway: Gateway, script: Script, redis_at_hand: RedisServer
) -> None:
    shown = await begun(gateway)
    follower = asyncio.create_task(get(gateway, shown["id"], stream="true"))
    await until(lambda: running(shown["id"])._next > 3)
    await asyncio.sleep(0.3)
    redis_at_hand.client.flushall()
    assert await gateway.backend.idle_within(5)
    assert events_of(await follower)[-1]["type"] in ("error", "response.failed")
    await until(lambda: not RUNNING)
    assert (await get(gateway, shown["id"])).json["error"]["code"] == "gateway_stopped"


@pytest.mark.parametrize("patience", [60.0, 0.05])
async def test_an_end_that_can_not_be_stored_is_stored_later_or_a_failure(
    gateway: Gateway,
    script: Script,
    redis_at_hand: RedisServer,
    patience: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "PATIENCE", patience)
    shown = await begun(gateway)
    job = running(shown["id"])
    redis_at_hand.hang()
    script.hang_after = None
    assert await gateway.backend.idle_within(5)
    if patience < 1:
        await job.task
    else:
        await asyncio.sleep(0.3)
    unknown = await get(gateway, shown["id"])
    assert (unknown.status, code(unknown)[1]) == (503, "responses_unavailable")
    redis_at_hand.wake()
    await until(lambda: gateway.here.responses.kept == "fleet")
    last = await ended(gateway, shown["id"])
    if patience < 1:
        assert last["error"]["code"] == "gateway_stopped"
        return
    assert last["status"] == "completed"
    events = events_of(await get(gateway, shown["id"], stream="true"))
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["response"] == last


async def test_a_write_whose_reply_was_lost_is_repeated(
    gateway: Gateway, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, lost = Place.write, 0

    async def losing(self: Place, *arguments: Any) -> bool:
        nonlocal lost
        result = await write(self, *arguments)
        if len(arguments) > 1 and arguments[1] not in (place.FIRST, place.WHOLE) and not lost:
            lost += 1
            raise StoreUnavailable("Redis does not respond")
        return result

    monkeypatch.setattr(Place, "write", losing)
    script.hang_after = None
    events = events_of(await ask(gateway, stream=True))
    assert lost
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["type"] == "response.completed"


async def test_an_unavailable_store_is_a_503(gateway: Gateway, redis_at_hand: RedisServer) -> None:
    redis_at_hand.hang()
    refused = await ask(gateway)
    assert code(refused)[:2] == (503, "responses_unavailable")
    assert refused.headers[b"retry-after"] == b"1"
    assert not gateway.backend.requests
    redis_at_hand.wake()


async def test_a_response_that_is_too_large_fails_without_its_output(
    gateway: Gateway, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = " ".join(map(str, range(3_000)))
    gateway.backend.scripts["much"] = Script((text,))
    monkeypatch.setattr(redis_store, "RESPONSE_MAX_BYTES", 4_000)
    last = await ended(gateway, (await queued(gateway, "much"))["id"])
    assert (last["status"], last["error"]["code"], last["output"]) == (
        "failed", "request_too_large", [],
    )  # fmt: skip
    assert code(await ask(gateway, text))[:2] == (413, "request_too_large")


async def test_events_that_are_too_large_are_not_followed(
    gateway: Gateway, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "MOST_BYTES", 8_000)
    script.hang_after = None
    shown = await queued(gateway)
    *events, error = events_of(await get(gateway, shown["id"], stream="true"))
    assert [each["sequence_number"] for each in (*events, error)] == list(range(len(events) + 1))
    assert (error["type"], error["code"]) == ("error", "invalid_request")
    assert (await ended(gateway, shown["id"]))["status"] == "completed"


async def test_events_are_kept_for_a_while_after_the_end(
    gateway: Gateway, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, "ENDED_MS", 50)
    script.hang_after = None
    last = await ended(gateway, (await queued(gateway))["id"])
    await asyncio.sleep(0.1)
    refused = await get(gateway, last["id"], stream="true")
    assert code(refused) == (400, "invalid_request", "stream")
    assert (await get(gateway, last["id"])).json == last


async def test_redis_shows_nothing_in_clear_and_forgets_all(
    gateway: Gateway, script: Script, redis_at_hand: RedisServer
) -> None:
    shown = await queued(gateway, instructions="a secret instruction")
    await until(lambda: running(shown["id"])._next > 6)
    client = redis_at_hand.client
    for _ in range(2):
        held = redis_at_hand.everything()
        assert len(held) > 500
        name = shown["id"].encode()
        for clear in (
            b"secret",
            b"Hello",
            b"look around",
            b"wait",
            name,
            name[5:],
            SECRET.encode(),
        ):
            assert clear not in held
        assert all(client.pttl(key) > 0 for key in client.scan_iter())
        script.hang_after = None
        await ended(gateway, shown["id"])
    assert (await get(gateway, shown["id"], method="DELETE")).status == 200
    assert not [key for key in client.scan_iter() if b"events" in key or b"state" in key]


async def test_events_of_another_response_do_not_open(
    gateway: Gateway, script: Script, redis_at_hand: RedisServer
) -> None:
    script.hang_after = None
    names = [(await ended(gateway, (await queued(gateway))["id"]))["id"] for _ in range(2)]
    await until(lambda: not RUNNING)
    client = redis_at_hand.client
    one, other = client.scan_iter("*:events")
    client.rename(one, "x")
    client.rename(other, one)
    client.rename("x", other)
    for name in names:
        assert events_of(await get(gateway, name, stream="true"))[-1]["type"] == "error"
