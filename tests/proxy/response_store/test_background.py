"""Responses of the background in the store: two gateways, leases, outages of Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from tests.proxy.response_store.conftest import OWNER, MakeStore, log, response
from tests.proxy.response_store.test_redis_store import made
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until
from toolgate_proxy import background as tasks
from toolgate_proxy.response_store import background, redis_store, sealed_store
from toolgate_proxy.response_store.background import BackgroundResponse
from toolgate_proxy.response_store.record import StoredResponse
from toolgate_proxy.response_store.sealed_store import StoreUnavailable
from toolgate_proxy.response_store.store import ResponseStore

NAME = "resp_1"


def with_status(status: str) -> StoredResponse:
    stored = response(NAME)
    output = stored.body["output"] if status == "completed" else []
    return replace(stored, body={"id": NAME, "status": status, "output": output})


@pytest.fixture
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed_store, "LEASE_SECONDS", 0.3)


async def begun(store: ResponseStore, owner: str = OWNER) -> BackgroundResponse:
    job = BackgroundResponse(store.background)
    assert await job.queue(owner, with_status("queued")) is None
    return job


async def status(store: ResponseStore, owner: str = OWNER) -> str | None:
    """As a gateway that does not generate the response shows it."""
    found = await store.background.settled(owner, NAME)
    return None if found is None else str(found.body["status"])


@pytest.fixture
async def redis_pair(redis_at_hand: RedisServer) -> AsyncIterator[list[ResponseStore]]:
    stores = [made(redis_at_hand) for _ in range(2)]
    yield stores
    for store in stores:
        await store.aclose()


async def test_an_id_is_queued_once(make_store: MakeStore) -> None:
    one, other = make_store(), make_store()
    job = await begun(one)
    second = BackgroundResponse(other.background)
    assert await second.queue(OWNER, with_status("queued")) == "exists"
    await job.finish(with_status("completed"), None)
    await job.close(None)
    assert await second.queue(OWNER, with_status("queued")) == "exists"
    await second.close(None)
    assert await other.find(OWNER, NAME) == with_status("completed")


async def test_one_that_is_alive_does_not_fail(make_store: MakeStore, short_leases: None) -> None:
    one, other = make_store(), make_store()
    job = await begun(one)
    for _ in range(8):
        await asyncio.sleep(0.1)
        assert await status(other) == "queued"
    await job.abandon()


async def test_other_gateways_see_that_it_has_begun(make_store: MakeStore) -> None:
    one, other = make_store(), make_store()
    job = await begun(one)
    assert await status(other) == "queued"
    job.start(with_status("in_progress"))
    await asyncio.gather(*tasks._tasks)
    assert await status(other) == "in_progress"
    await job.abandon()


async def test_all_readers_see_the_same_end(make_store: MakeStore, short_leases: None) -> None:
    """Readers at the moment of the end, at both gateways."""
    one, other = make_store(), make_store()
    job = await begun(one)

    async def read(store: ResponseStore) -> list[str]:
        return [await status(store) or "missing" for _ in range(20)]

    readers = [asyncio.create_task(read(store)) for store in (one, other) * 4]
    assert await job.finish(with_status("completed"), None) is None
    await job.close(None)
    for seen in await asyncio.gather(*readers):
        assert set(seen) <= {"queued", "completed"}
        assert seen == sorted(seen, reverse=True)
    assert await status(other) == "completed"


async def test_a_cancel_elsewhere_ends_the_generation(
    make_store: MakeStore, short_leases: None
) -> None:
    one, other = make_store(), make_store()
    job = await begun(one)
    assert job.live is not None
    other.background.running.pop((OWNER, NAME), None)  # in memory, there is one process
    cancelled = await other.background.cancel(OWNER, NAME)
    assert cancelled is not None
    assert cancelled.body["status"] == "cancelled"
    await until(job.stopped.is_set)
    assert job.live.last == {"type": "response.failed", "response": cancelled.body}
    assert await job.finish(with_status("completed"), None) == "changed"
    await job.close(None)
    assert await status(other) == "cancelled"


async def test_a_failure_that_is_too_large_is_stored_without_output(
    make_store: MakeStore, small_responses: None
) -> None:
    store = make_store()
    job = await begun(store)
    text = "".join(map(str, range(1000)))
    large = {**with_status("completed").body, "output": [{"type": "message", "content": text}]}
    assert await job.finish(replace(response(NAME), body=large), None) == "too_large"
    assert job.live is not None
    error = {"code": "request_too_large", "message": "Too large."}
    job.live.end({"type": "response.failed", "response": {**large, "error": error}})
    await job.close(None)
    found = await store.find(OWNER, NAME)
    assert found is not None
    assert (found.body["status"], found.body["error"], found.body["output"]) == (
        "failed",
        error,
        [],
    )


@pytest.mark.parametrize("fault", ["kill", "hang"])
async def test_without_redis_nothing_is_said_to_have_failed(
    redis_at_hand: RedisServer,
    redis_pair: list[ResponseStore],
    fault: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background, "PATIENCE", 0.05)
    monkeypatch.setattr(background, "PAUSE", 0.02)
    monkeypatch.setattr(redis_store, "TIMEOUT_SECONDS", 0.2)
    one, other = redis_pair
    job = await begun(one)
    getattr(redis_at_hand, fault)()
    works: Any = (other.background.settled, other.background.cancel)
    for work in works:
        with pytest.raises(StoreUnavailable):
            await work(OWNER, NAME)
    with pytest.raises(StoreUnavailable):
        await BackgroundResponse(other.background).queue(OWNER, with_status("queued"))
    assert await job.finish(with_status("completed"), None) == "unavailable"
    await job.close(None)


async def test_it_is_stored_when_redis_responds_again(
    redis_at_hand: RedisServer, redis_pair: list[ResponseStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "PAUSE", 0.05)
    one, other = redis_pair
    job = await begun(one)
    redis_at_hand.hang()
    ending = asyncio.create_task(job.finish(with_status("completed"), log()))
    await until(lambda: one.kept == "unavailable")
    redis_at_hand.wake()
    # The write that timed out may have come through: then the record is the same.
    assert await ending in (None, "changed")
    assert (await other.find(OWNER, NAME)) == with_status("completed")
    await job.close(None)


async def test_a_write_whose_reply_was_lost_counts(
    store: ResponseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await begun(store)
    write = store._store.replace

    async def losing(*args: Any) -> str:
        assert await write(*args) is None
        return "unavailable"

    with monkeypatch.context() as patch:
        patch.setattr(store._store, "replace", losing)
        job.start(with_status("in_progress"))
        await asyncio.gather(*tasks._tasks)
    assert await job.finish(with_status("completed"), None) is None
    await job.close(None)
    assert await status(store) == "completed"


async def test_a_flush_of_redis_ends_the_generation(
    redis_at_hand: RedisServer, redis_pair: list[ResponseStore], short_leases: None
) -> None:
    one, other = redis_pair
    job = await begun(one)
    redis_at_hand.client.flushall()
    await until(job.stopped.is_set)
    assert await job.finish(with_status("completed"), None) == "changed"
    await job.close(None)
    assert await other.find(OWNER, NAME) is None
    assert await status(other) is None
