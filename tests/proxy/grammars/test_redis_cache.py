"""Shared cache: several gateways with one Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.support.servers.fake_backend import INFO, FakeBackend, blob_of, running
from tests.support.servers.fleet import SECRET, gateway, tool, tools
from toolgate_core.errors import BackendFailed, BackendUnavailable, SchemaNotEnforceable
from toolgate_proxy.grammars import redis_cache
from toolgate_proxy.grammars import service as grammars
from toolgate_proxy.grammars.service import grammar_key


@pytest.fixture
def other_backend() -> Iterator[FakeBackend]:
    with running(FakeBackend()) as backend:
        yield backend


async def test_grammars_are_compiled_once_for_two_gateways_and_two_backends(
    backend, other_backend, redis_at_hand
):
    wanted = (*tools(3, "shared"), tool("heavy_one"))
    async with (
        gateway(backend.url, redis_at_hand.url) as first,
        gateway(other_backend.url, redis_at_hand.url) as second,
    ):
        assert (await first.ask(*wanted)).tier == "compiled"
        assert (await first.ask(*wanted)).tier == "memory"
        await first.fleet.flush()
        assert (await second.ask(*wanted)).tier == "redis"
    assert len(backend.compiles) == 4
    assert not other_backend.compiles
    assert all(source.examined for source in other_backend.sources)
    blobs = {source.name: source.blob for source in other_backend.sources}
    assert blobs["heavy_one"] == blob_of("heavy_one")
    assert blobs["shared0"] is None


async def test_concurrent_requests_at_two_gateways_compile_64_tools_once(
    backend, other_backend, redis_at_hand, monkeypatch
):
    # After these timeouts a grammar is compiled again. A busy machine could exceed them.
    monkeypatch.setattr(grammars, "OTHER_REQUEST_SECONDS", 60.0)
    monkeypatch.setattr(grammars, "OTHER_GATEWAY_SECONDS", 60.0)
    monkeypatch.setattr(redis_cache, "LOCK_TTL", 60.0)
    settings = {"redis_timeout": 60.0}
    backend.load_pause = other_backend.load_pause = 0.2
    new = tools(64, "rush")
    async with (
        gateway(backend.url, redis_at_hand.url, **settings) as first,
        gateway(other_backend.url, redis_at_hand.url, **settings) as second,
    ):
        sets = [new[at * 8 : at * 8 + 24] or new for at in range(8)]
        await asyncio.gather(*(each.ask(*some) for some in sets for each in (first, second)))
    compiles = backend.compiles + other_backend.compiles
    assert len(compiles) == 64
    assert set(compiles.values()) == {1}
    assert backend.loaded >= set(compiles)
    assert other_backend.loaded >= set(compiles)


async def test_a_second_request_does_not_compile_what_another_gateway_compiles(
    backend, other_backend, redis_at_hand
):
    """It waits longer than for a batch of its own gateway, because that batch waits, too."""
    backend.load_pause = 1.5
    slow, also = tool("slow_elsewhere"), tool("also")
    settings = {"redis_timeout": 60.0}
    async with (
        gateway(backend.url, redis_at_hand.url, **settings) as first,
        gateway(other_backend.url, redis_at_hand.url, **settings) as second,
    ):
        compiling = asyncio.create_task(first.ask(slow))
        while not backend.loads:  # noqa: ASYNC110  another thread's
            await asyncio.sleep(0.01)
        results = await asyncio.gather(second.ask(slow, also), second.ask(slow), compiling)
    assert [each.tier for each in results] == ["compiled", "redis", "compiled"]
    compiles = backend.compiles + other_backend.compiles
    assert compiles == {grammar_key(slow, INFO): 1, grammar_key(also, INFO): 1}


@pytest.mark.exhaustive
@pytest.mark.slow
async def test_a_compile_of_another_gateway_may_take_many_seconds(
    backend, other_backend, redis_at_hand
):
    backend.load_pause = other_backend.load_pause = 6
    slow = tool("slow_for_seconds")
    settings = {"redis_timeout": 60.0}
    async with (
        gateway(backend.url, redis_at_hand.url, **settings) as first,
        gateway(other_backend.url, redis_at_hand.url, **settings) as second,
    ):
        await asyncio.gather(first.ask(slow), second.ask(slow))
    assert (backend.compiles + other_backend.compiles).total() == 1


async def test_one_mget_reads_the_records_of_all_tools(backend, other_backend, redis_at_hand):
    many = tools(60, "many")
    async with gateway(backend.url, redis_at_hand.url) as first:
        await first.ask(*many)
    assert redis_at_hand.calls("mget") == 2  # before the locks are taken, and with them
    async with gateway(other_backend.url, redis_at_hand.url) as second:
        await second.ask(*many)
        assert redis_at_hand.calls("mget") == 3
        before = redis_at_hand.client.info("stats")["total_commands_processed"]
        await second.ask(*many)
        after = redis_at_hand.client.info("stats")["total_commands_processed"]
        # Only this test's INFO and its connection's handshake: memory needs no command.
        assert after - before < 6
        assert redis_at_hand.calls("mget") == 3


async def test_refused_schemas_are_shared_between_gateways(backend, other_backend, redis_at_hand):
    good, refused = tool("good"), tool("refused_by_all")
    async with gateway(backend.url, redis_at_hand.url) as first:
        with pytest.raises(SchemaNotEnforceable):
            await first.ask(good, refused)
        loads = len(backend.loads)
        with pytest.raises(SchemaNotEnforceable):
            await first.ask(refused)
        assert len(backend.loads) == loads
    async with gateway(other_backend.url, redis_at_hand.url) as second:
        with pytest.raises(SchemaNotEnforceable) as refusal:
            await second.ask(refused)
        assert not other_backend.loads
    assert (refusal.value.pointer, refusal.value.param) == ("/not", "tools[0].function.parameters")
    (key,) = [k for k in redis_at_hand.client.keys("toolgate:grammar:*") if refused.hash in str(k)]
    assert 0 < redis_at_hand.client.ttl(key) <= 600
    (key,) = [k for k in redis_at_hand.client.keys("toolgate:grammar:*") if good.hash in str(k)]
    assert redis_at_hand.client.ttl(key) > 600


async def test_grammars_locked_by_a_dead_gateway_are_compiled_by_another(
    backend, redis_at_hand, monkeypatch
):
    wanted = tool("orphan")
    monkeypatch.setattr(redis_cache, "LOCK_TTL", 0.5)
    async with gateway(backend.url, redis_at_hand.url) as dead:
        key = grammar_key(wanted, INFO)
        claim = await dead.fleet.claim([key])  # and then it dies
        assert claim.won == (key,)
        async with gateway(backend.url, redis_at_hand.url) as heir:
            seconds = await heir.timed(wanted)
            assert 0.3 < seconds < 15.0  # less than the 20 s that it waits for another gateway
    assert backend.compiles[key] == 1


async def test_waiting_for_the_lock_of_another_gateway_is_limited(
    backend, redis_at_hand, monkeypatch
):
    monkeypatch.setattr(grammars, "OTHER_GATEWAY_SECONDS", 0.5)
    wanted = tool("stuck")
    key = grammar_key(wanted, INFO)
    redis_at_hand.client.set(f"toolgate:lock:{key}", "someone", ex=60)
    async with gateway(backend.url, redis_at_hand.url) as waiting:
        assert 0.4 < await waiting.timed(wanted) < 15.0  # less than the lock's 60 s
        await waiting.fleet.flush()
        assert await waiting.fleet.find([key]), "the record is written nevertheless"
    assert redis_at_hand.client.get(f"toolgate:lock:{key}") == b"someone", (
        "the lock belongs to another gateway"
    )


@pytest.mark.exhaustive
async def test_locks_are_renewed_during_a_long_compile(backend, redis_at_hand, monkeypatch):
    monkeypatch.setattr(redis_cache, "LOCK_TTL", 1.0)
    backend.load_pause = 3.0
    wanted = tool("slow")
    settings = {"redis_timeout": 1.0}  # a busy machine may stall for 0.3 s
    async with (
        gateway(backend.url, redis_at_hand.url, **settings) as first,
        gateway(backend.url, redis_at_hand.url, **settings) as second,
    ):
        await asyncio.gather(first.ask(wanted), second.ask(wanted))
        await first.fleet.flush()
        await second.fleet.flush()
        assert not redis_at_hand.client.keys("toolgate:lock:*")
    assert list(backend.compiles.values()) == [1]


async def test_a_failed_compile_releases_its_lock(backend, redis_at_hand, monkeypatch):
    monkeypatch.setattr(redis_cache, "LOCK_TTL", 60.0)
    wanted = tool("tossed")
    async with (
        gateway("http://127.0.0.1:1", redis_at_hand.url) as broken,
        gateway(backend.url, redis_at_hand.url) as sound,
    ):
        with pytest.raises(BackendUnavailable):
            await broken.ask(wanted)
        await broken.fleet.flush()
        assert await sound.timed(wanted) < 15.0  # less than the wait for the lock
        assert backend.compiles.total() == 1


async def test_most_used_grammars_are_sorted_by_uses(backend, redis_at_hand):
    often, seldom, once = tool("often"), tool("seldom"), tool("once")
    async with gateway(backend.url, redis_at_hand.url) as first:
        for asked in ([often, seldom, once], [often, seldom], [often]):
            await first.ask(*asked)
        await first.fleet.flush()
        most = await first.fleet.most_used(2)
    assert [(record.name, record.parameters) for record in most] == [
        ("often", often.parameters),
        ("seldom", seldom.parameters),
    ]


async def test_redis_stores_no_secret(backend, redis_at_hand):
    async with gateway(backend.url, redis_at_hand.url) as first:
        await first.ask(tool("t", city={"type": "string", "description": "Where Alice lives"}))
    content = redis_at_hand.everything()
    assert b"toolgate:grammar:" in content
    assert b"toolgate:used:" in content
    assert b"city" in content
    for hidden in (SECRET.encode(), b"backend-key", b"Alice"):
        assert hidden not in content


async def test_large_blobs_are_not_stored(backend, redis_at_hand, monkeypatch):
    async with gateway(backend.url, redis_at_hand.url) as first:
        with monkeypatch.context() as patched:
            patched.setattr(redis_cache, "BLOB_LIMIT", 10)
            await first.ask(tool("heavy_two"))
            await first.fleet.flush()
        backend.forget()
        backend.sources.clear()
    async with gateway(backend.url, redis_at_hand.url) as second:
        assert (await second.ask(tool("heavy_two"))).tier == "redis"
    assert [(source.examined, source.blob) for source in backend.sources] == [(True, None)]


async def test_backend_errors_are_not_recorded(backend, redis_at_hand, monkeypatch):
    async with gateway(backend.url, redis_at_hand.url) as first:

        async def fail(*_: object, **__: object) -> None:
            raise BackendFailed("by script")

        with monkeypatch.context() as patched:
            patched.setattr(first.backend, "load_grammars", fail)
            with pytest.raises(BackendFailed):
                await first.ask(tool("tried_again"))
        assert (await first.ask(tool("tried_again"))).tier == "compiled"
