"""Faults of Redis: every request still gets its grammars, correct and in time."""

import asyncio

import pytest
from prometheus_client import REGISTRY
from pydantic import SecretStr

from tests.support.servers.fake_backend import INFO
from tests.support.servers.fleet import OPERATOR, SECRET, Gateway, gateway, tool, tools
from tests.support.waiting import until
from toolgate_core import wire
from toolgate_proxy.grammars.service import grammar_key
from toolgate_proxy.grammars.verdicts import PURPOSE, RedisCache
from toolgate_proxy.redis_client import PATIENT_TIMEOUT, SharedRedis
from toolgate_proxy.sealing import Sealer
from toolgate_proxy.settings import Settings

SLACK = 10.0
"""Seconds that a busy machine may add. A hang would take twice as long."""


def total(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


async def test_redis_restart_between_requests_causes_no_error(backend, redis_at_hand):
    async with gateway(backend.url, redis_at_hand.url) as asked:
        await asked.ask(tool("first"))
        await asked.fleet.flush()
        redis_at_hand.kill()
        redis_at_hand.restart()
        failures = total("toolgate_redis_errors_total", kind="connection")
        await asked.ask(tool("second"))
        assert total("toolgate_redis_errors_total", kind="connection") == failures


async def test_hung_redis_costs_one_timeout_and_recovers(backend, redis_at_hand):
    async with gateway(backend.url, redis_at_hand.url) as asked:
        await asked.ask(tool("before"))
        await asked.fleet.flush()
        timeouts = total("toolgate_redis_errors_total", kind="timeout")
        redis_at_hand.hang()
        try:
            times = [await asked.timed(tool(f"hung{at}")) for at in range(20)]
            met = total("toolgate_redis_errors_total", kind="timeout") - timeouts
            assert total("toolgate_redis_breaker_open") == 1
        finally:
            redis_at_hand.wake()
        assert max(times) < SLACK
        assert met == 1, "one request waits for the timeout; the breaker spares the others"
        assert Settings().redis_timeout <= 0.05
        await until(lambda: asked.fleet.redis.available)
        assert total("toolgate_redis_breaker_open") == 0
        await asked.ask(tool("woken"))
        await asked.fleet.flush()
        assert (await asked.fleet.find(OPERATOR, [grammar_key(tool("woken"), INFO)])) != {}


async def test_each_exchange_is_measured_with_those_that_fail(redis_at_hand):
    redis = SharedRedis(SecretStr(redis_at_hand.url), timeout=0.3)
    await redis.connected()

    def measured() -> tuple[float, float]:
        return total("toolgate_redis_seconds_count"), total("toolgate_redis_seconds_sum")

    count, seconds = measured()
    assert await redis.run([("PING",), ("PING",)]) == [True, True]
    assert measured()[0] == count + 1
    redis_at_hand.hang()
    try:
        assert await redis.run([("PING",)]) is None
    finally:
        redis_at_hand.wake()
    assert measured()[0] == count + 2
    assert 0.25 <= measured()[1] - seconds < SLACK
    await redis.aclose()


@pytest.mark.exhaustive
async def test_hung_redis_does_not_fail_commands_with_a_longer_timeout(redis_at_hand):
    redis = SharedRedis(SecretStr(redis_at_hand.url), timeout=30.0)
    await redis.connected()
    redis_at_hand.hang()
    try:
        asked = asyncio.create_task(redis.run([("PING",)]))
        await asyncio.sleep(PATIENT_TIMEOUT + 0.5)
    finally:
        redis_at_hand.wake()
    assert await asked == [True]
    await redis.aclose()


async def test_full_redis_is_read_but_not_written(backend, redis_at_hand):
    async with gateway(backend.url, redis_at_hand.url) as asked:
        await asked.ask(tool("roomy"))
        await asked.fleet.flush()
        client = redis_at_hand.client
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", 1)
        assert await asked.ask(tool("cramped")) == "new"
        await asked.fleet.flush()
        assert asked.fleet.redis.available, "a full Redis can still be read"
        async with gateway(backend.url, redis_at_hand.url) as reader:
            assert await reader.ask(tool("roomy")) == "known"
        client.config_set("maxmemory", 0)
        await asked.ask(tool("roomy_again"))
        await asked.fleet.flush()
        assert await asked.fleet.find(OPERATOR, [grammar_key(tool("roomy_again"), INFO)])


GARBAGE = [b"", b"\x00\xff" * 50, b"null", b"{}", b"\x01", b"\x80\x04K\x01.", b"a" * 9]


async def test_garbage_records_are_ignored_and_replaced(backend, redis_at_hand):
    wanted = tools(len(GARBAGE), "garbage")
    for each, value in zip(wanted, GARBAGE, strict=True):
        redis_at_hand.client.set(f"toolgate:verdict:{OPERATOR}:{grammar_key(each, INFO)}", value)
    dropped = total("toolgate_records_dropped_total")
    async with gateway(backend.url, redis_at_hand.url) as asked:
        assert await asked.ask(*wanted) == "new"
        assert len(backend.compiles) == len(wanted)
        assert total("toolgate_records_dropped_total") == dropped + len(GARBAGE)
    async with gateway(backend.url, redis_at_hand.url) as next_one:
        assert await next_one.ask(*wanted) == "known", "the garbage has been replaced"


async def test_values_of_wrong_types_are_ignored(backend, redis_at_hand):
    wanted = tool("typed")
    key = grammar_key(wanted, INFO)
    redis_at_hand.client.rpush(f"toolgate:verdict:{OPERATOR}:{key}", "a list")
    async with gateway(backend.url, redis_at_hand.url) as asked:
        assert await asked.timed(wanted) < SLACK


@pytest.mark.parametrize(
    ("poison", "is_broken"),
    [
        ("wrong secret", True),
        ("another key's", True),
        ("changed", True),
        ("cut", True),
        ("no seal", True),
        ("another release", False),
    ],
)
async def test_forged_records_are_ignored_and_replaced(backend, redis_at_hand, poison, is_broken):
    """A record says that its schema was examined, which must not reach a backend."""
    wanted, other = tool("target", a={"type": "integer"}), tool("other_target")
    key, other_key = grammar_key(wanted, INFO), grammar_key(other, INFO)
    client, sealer = redis_at_hand.client, Sealer(SECRET.encode())
    async with gateway(backend.url, redis_at_hand.url) as honest:
        await honest.ask(wanted, other)
    held, other_held = (
        client.get(f"toolgate:verdict:{OPERATOR}:{each}") for each in (key, other_key)
    )
    assert isinstance(held, bytes)
    assert isinstance(other_held, bytes)
    bound = {"purpose": PURPOSE, "owner": f"{OPERATOR}:{key}"}
    verdict = sealer.open(held, **bound)
    forged = {
        "wrong secret": Sealer(b"guessed").seal(verdict, **bound),
        "another key's": other_held,
        "changed": held[:-20] + bytes([held[-20] ^ 1]) + held[-19:],
        "cut": held[:-20],
        "no seal": verdict,
        "another release": sealer.seal(verdict.replace(b'"status"', b'"state"'), **bound),
    }[poison]
    assert forged != held
    client.set(f"toolgate:verdict:{OPERATOR}:{key}", forged)
    backend.forget()
    backend.sources.clear()
    dropped = total("toolgate_records_dropped_total")
    async with gateway(backend.url, redis_at_hand.url) as asked:
        assert await asked.ask(wanted) == "new"
    (source,) = backend.sources
    assert not source.examined
    assert source.parameters == wanted.parameters
    assert total("toolgate_records_dropped_total") == dropped + is_broken
    replaced = client.get(f"toolgate:verdict:{OPERATOR}:{key}")
    assert isinstance(replaced, bytes)
    assert wire.GrammarVerdict.model_validate_json(sealer.open(replaced, **bound)).key == key


async def test_unreachable_redis_leaves_the_memory_cache_working(backend):
    settings = Settings(
        redis_url=SecretStr("redis://127.0.0.1:1/0"), fleet_secret=SecretStr(SECRET)
    )
    lone = Gateway(backend.url, settings)
    assert await lone.timed(tool("alone")) < SLACK
    assert await lone.ask(tool("alone")) == "known"
    await lone.deployments.aclose()


def test_without_a_secret_there_is_no_shared_cache():
    settings = Settings(redis_url=SecretStr("redis://127.0.0.1:1"), fleet_secret=None)
    assert RedisCache.from_settings(settings.model_copy(update={"backend_key": None})) is None
