"""Shared cache: several gateways with one Redis."""

from collections.abc import Iterator

import pytest

from tests.support.servers.fake_backend import INFO, KEY, FakeBackend, blob_of, running
from tests.support.servers.fleet import OPERATOR, SECRET, gateway, tool, tools
from tests.support.servers.script import Script
from toolgate_core.errors import BackendFailed, SchemaNotEnforceable
from toolgate_core.wire import GrammarVerdict
from toolgate_proxy.grammars import verdicts
from toolgate_proxy.grammars.service import grammar_key
from toolgate_proxy.grammars.verdicts import FIRST_TTL


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
        assert await first.ask(*wanted) == "new"
        assert await first.ask(*wanted) == "known"
        await first.fleet.flush()
        assert await second.ask(*wanted) == "known"
    assert len(backend.compiles) == 4
    assert not other_backend.compiles
    blobs = {each.name: each.examined and each.examined.blob for each in other_backend.sources}
    assert blobs == {f"shared{at}": None for at in range(3)} | {"heavy_one": blob_of("heavy_one")}
    assert all(source.examined for source in other_backend.sources)


async def test_one_mget_reads_the_records_of_all_tools(backend, other_backend, redis_at_hand):
    many = tools(60, "many")
    async with gateway(backend.url, redis_at_hand.url) as first:
        await first.ask(*many)
    assert redis_at_hand.calls("mget") == 1
    async with gateway(other_backend.url, redis_at_hand.url) as second:
        await second.ask(*many)
        assert redis_at_hand.calls("mget") == 2
        before = redis_at_hand.client.info("stats")["total_commands_processed"]
        await second.ask(*many)
        after = redis_at_hand.client.info("stats")["total_commands_processed"]
        # Only this test's INFO and its connection's handshake: memory needs no command.
        assert after - before < 6
        assert redis_at_hand.calls("mget") == 2


async def test_a_restarted_backend_gets_the_records_of_known_grammars(backend, redis_at_hand):
    wanted = (*tools(2, "kept"), tool("heavy_kept"))
    async with gateway(backend.url, redis_at_hand.url) as first:
        await first.ask(*wanted)
        await first.ask(*wanted)
        assert redis_at_hand.calls("mget") == 1, "the replica that has sent a verdict needs none"
        first.fleet.put(
            OPERATOR, [GrammarVerdict(key=grammar_key(wanted[0], INFO), status="refused")], ""
        )
        await first.fleet.flush()
        compiled, backend.replica = backend.compiles.total(), "restarted"
        backend.loaded.clear()
        await first.deployment.backend.probe()
        assert [await first.ask(*wanted) for _ in range(4)] == ["known"] * 4
        assert backend.compiles.total() == compiled + 1, "what was refused since is no record"
        assert redis_at_hand.calls("mget") == 3, "once for each name of the last seconds"


async def test_refused_schemas_are_shared_between_gateways(backend, other_backend, redis_at_hand):
    good, refused = tool("good"), tool("refused_by_all")
    async with gateway(backend.url, redis_at_hand.url) as first:
        with pytest.raises(SchemaNotEnforceable):
            await first.ask(good, refused)
        loads = len(backend.loads)
        with pytest.raises(SchemaNotEnforceable):
            await first.ask(refused)
        assert len(backend.loads) == loads
        await first.ask(good)
    async with gateway(other_backend.url, redis_at_hand.url) as second:
        with pytest.raises(SchemaNotEnforceable) as refusal:
            await second.ask(refused)
        assert not other_backend.loads
    assert (refusal.value.pointer, refusal.value.param) == ("/not", "tools[0].function.parameters")
    (key,) = [k for k in redis_at_hand.client.keys("toolgate:verdict:*") if refused.hash in str(k)]
    assert 0 < redis_at_hand.client.ttl(key) <= 600
    (key,) = [k for k in redis_at_hand.client.keys("toolgate:verdict:*") if good.hash in str(k)]
    assert redis_at_hand.client.ttl(key) > 600


PATIENT = {"redis_timeout": 5.0}
"""On a busy machine, the breaker would open, and nothing would be recorded."""


async def test_a_verdict_counts_only_for_the_deployments_of_its_operator(
    backend, other_backend, redis_at_hand, monkeypatch
):
    wanted = tool("refused_by_a_hostile_backend")
    monkeypatch.setattr(other_backend, "_verdict", lambda source: ready(source.key))
    async with gateway(backend.url, redis_at_hand.url, group="hostile", **PATIENT) as hostile:
        with pytest.raises(SchemaNotEnforceable):
            await hostile.ask(wanted)
    async with gateway(other_backend.url, redis_at_hand.url, **PATIENT) as honest:
        assert await honest.ask(wanted) == "new"
        cache, names = honest.fleet, {("tiny", KEY), ("tiny", "another"), ("hostile", KEY)}
        assert len({cache.operator(*each) for each in names} | {cache.operator("t", "iny")}) == 4
    async with gateway(other_backend.url, redis_at_hand.url, **PATIENT) as replica:
        assert await replica.ask(wanted) == "known"
    records = redis_at_hand.client.keys(f"toolgate:verdict:*:{wanted.hash}:*")
    assert len(records) == 2


def ready(key):
    return GrammarVerdict(key=key, status="ready")


def life(redis, wanted):
    (key,) = redis.client.keys(f"toolgate:verdict:{OPERATOR}:{wanted.hash}:*")
    return redis.client.ttl(key)


async def test_a_record_lives_longer_from_its_second_use_on(backend, other_backend, redis_at_hand):
    here, there, once = tools(3, "used")
    async with gateway(backend.url, redis_at_hand.url, **PATIENT) as first:
        await first.ask(here, there, once)
        await first.fleet.flush()
        assert all(0 < life(redis_at_hand, each) <= FIRST_TTL for each in (here, there, once))
        await first.ask(here)
        async with gateway(other_backend.url, redis_at_hand.url, **PATIENT) as second:
            assert await second.ask(there) == "known"
        await first.deployment.grammars.prepare([prepared := tool("prepared")])
        await first.fleet.flush()
    lives = [life(redis_at_hand, each) for each in (here, there, prepared, once)]
    assert [each > FIRST_TTL for each in lives] == [True, True, True, False]


async def test_the_oldest_records_of_a_key_are_dropped(backend, redis_at_hand, monkeypatch):
    monkeypatch.setattr(verdicts, "MAX_RECORDS", 3)
    older, newer, other = tools(2, "older"), tools(2, "newer"), tool("other")
    async with gateway(backend.url, redis_at_hand.url, **PATIENT) as first:
        first.fleet.put(OPERATOR, [ready(grammar_key(other, INFO))], "another key")
        for each in (*older, newer):
            await first.ask(*([each] if each in older else each))
            await first.fleet.flush()
    async with gateway(backend.url, redis_at_hand.url, **PATIENT) as second:
        found = await second.fleet.find(
            OPERATOR, [grammar_key(each, INFO) for each in (*older, *newer, other)]
        )
    assert {*found} == {grammar_key(each, INFO) for each in (older[1], *newer, other)}


async def test_redis_stores_no_secret(backend, redis_at_hand):
    async with gateway(backend.url, redis_at_hand.url) as first:
        await first.ask(tool("t", city={"type": "string", "description": "Where Alice lives"}))
    content = redis_at_hand.everything()
    assert b"toolgate:verdict:" in content
    assert b"toolgate:verdicts-of:" in content
    for hidden in (SECRET.encode(), b"backend-key", b"city", b"Alice", b"tiny"):
        assert hidden not in content


async def test_backend_errors_are_not_recorded(backend, redis_at_hand):
    backend.scripts["fails"] = Script(("",), error_status=500, error={"message": "No."})
    async with gateway(backend.url, redis_at_hand.url) as first:
        with pytest.raises(BackendFailed):
            await first.ask(tool("tried_again"), text="fails")
        assert await first.ask(tool("tried_again")) == "new"
