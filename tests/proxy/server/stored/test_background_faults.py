"""Responses of the background of another gateway, of one that ends, and without Redis."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.proxy.server.stored.background_requests import (
    ACTIVE,
    OWNER,
    ask,
    begun,
    code,
    elsewhere,
    ended,
    events_of,
    get,
    queued,
    running,
)
from tests.support.apis.responses_api import check_response
from tests.support.litellm.own_route import Gateway
from tests.support.servers.script import Script
from tests.support.waiting import until
from toolgate_proxy.response_store import background, sealed_store
from toolgate_proxy.response_store.sealed_store import StoreUnavailable
from toolgate_proxy.server import live_replay


async def test_another_gateway_sees_and_cancels_it(
    gateway: Gateway, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed_store, "LEASE_SECONDS", 0.3)
    shown = await begun(gateway)
    job = elsewhere(gateway, shown["id"], monkeypatch)
    assert (await get(gateway, shown["id"])).json["status"] in ACTIVE
    assert (await get(gateway, shown["id"], method="DELETE")).status == 400
    cancelled = (await get(gateway, shown["id"], "/cancel", "POST")).json
    assert cancelled["status"] == "cancelled"
    await until(job.stopped.is_set)
    assert job.live is not None
    assert job.live.last == {"type": "response.failed", "response": cancelled}
    assert await gateway.backend.idle_within(5)
    assert (await get(gateway, shown["id"])).json == cancelled


async def test_another_gateway_streams_it_when_it_has_ended(
    gateway: Gateway, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_replay, "POLL_SECONDS", 0.02)
    shown = await begun(gateway)
    elsewhere(gateway, shown["id"], monkeypatch)
    follower = asyncio.create_task(get(gateway, shown["id"], stream="true", starting_after=0))
    await asyncio.sleep(0.1)
    assert not follower.done()
    script.hang_after = None
    events = events_of(await follower)
    assert events[0]["sequence_number"] == 1
    assert events[-1]["type"] == "response.completed"
    whole = await get(gateway, shown["id"], stream="true")
    assert events_of(whole)[1:] == events


async def test_a_gateway_that_dies_leaves_it_as_failed(
    gateway: Gateway, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed_store, "LEASE_SECONDS", 0.3)
    shown = await begun(gateway)
    job = elsewhere(gateway, shown["id"], monkeypatch)
    assert job._watching is not None
    assert job._lease is not None
    assert job._lease._prolonging is not None
    for task in (job._watching, job._lease._prolonging):
        task.cancel()  # it is dead
    last = await ended(gateway, shown["id"])
    check_response(last)
    assert (last["status"], last["error"]["code"]) == ("failed", "gateway_stopped")
    events = events_of(await get(gateway, shown["id"], stream="true"))
    assert events[-1]["response"] == last
    # It was only slow: what it generated comes too late.
    script.hang_after = None
    await until(lambda: job._ended)
    assert (await get(gateway, shown["id"])).json == last


@pytest.mark.parametrize("begun", [True, False])
async def test_a_gateway_that_stops_leaves_it_as_failed_at_once(
    gateway: Gateway, script: Script, begun: bool
) -> None:
    script.queued = 0 if begun else 60
    shown = await queued(gateway)
    live = running(gateway, shown["id"]).live
    assert live is not None
    follower = asyncio.create_task(get(gateway, shown["id"], stream="true"))
    await until(lambda: gateway.backend.running)
    await until(lambda: not begun or (live.log and live.log.entries))
    await gateway.here.responses.background.aclose()
    await until(lambda: not gateway.here.responses.live.find(OWNER, shown["id"]))
    last = (await get(gateway, shown["id"])).json
    assert (last["status"], last["error"]["code"]) == ("failed", "gateway_stopped")
    assert events_of(await follower)[-1]["type"] == "response.failed"


async def test_a_lost_record_ends_the_generation(
    gateway: Gateway, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed_store, "LEASE_SECONDS", 0.3)
    shown = await queued(gateway)
    follower = asyncio.create_task(get(gateway, shown["id"], stream="true"))
    await until(lambda: gateway.backend.running)
    gateway.here.responses._store._owners.clear()  # type: ignore[attr-defined]
    assert events_of(await follower)[-1]["response"]["error"]["code"] == "gateway_stopped"
    assert await gateway.backend.idle_within(5)
    assert code(await get(gateway, shown["id"])) == (404, "response_not_found", None)


async def test_an_end_that_can_not_be_stored_is_stored_later(
    gateway: Gateway, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "PAUSE", 0.02)
    shown = await begun(gateway)
    store, tried = gateway.here.responses._store, asyncio.Event()

    async def replace(*_: Any) -> str:
        tried.set()
        return "unavailable"

    with monkeypatch.context() as patch:
        patch.setattr(store, "replace", replace)
        script.hang_after = None
        await tried.wait()
        await asyncio.sleep(0.1)
        assert (await get(gateway, shown["id"])).json["status"] in ACTIVE
    assert (await ended(gateway, shown["id"]))["status"] == "completed"


async def test_an_end_that_can_never_be_stored_is_a_failure(
    gateway: Gateway, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in (("PAUSE", 0.01), ("PATIENCE", 0.05)):
        monkeypatch.setattr(background, name, seconds)
    asked = asyncio.create_task(ask(gateway, stream=True, request_id="mine"))
    await until(lambda: gateway.backend.running)

    async def replace(*_: Any) -> str:
        return "unavailable"

    monkeypatch.setattr(gateway.here.responses._store, "replace", replace)
    script.hang_after = None
    last = events_of(await asked)[-1]["response"]
    assert (last["status"], last["error"]["code"]) == ("failed", "responses_unavailable")


async def test_an_unavailable_store_is_a_503(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = gateway.here.responses._store

    async def put(*_: Any) -> str:
        return "unavailable"

    async def failing(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("Redis does not respond")

    for name, fault in (("put", put), ("hold", failing)):
        monkeypatch.setattr(store, name, fault)
        refused = await ask(gateway)
        assert code(refused)[:2] == (503, "responses_unavailable")
        assert refused.headers[b"retry-after"] == b"1"
    assert not gateway.backend.requests
