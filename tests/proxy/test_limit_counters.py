"""Counting requests and tokens of keys, in Redis and in memory: both agree, no limit is exceeded,
and a Redis that is full, damaged or shared changes no other count."""

import asyncio
import time
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from tests.support.effort import repeats, rotating
from tests.support.servers.redis_server import redis_server
from tests.support.servers.virtual_keys import key_of
from toolgate_core.errors import LimitsUnavailable
from toolgate_proxy.keys.key import new_key
from toolgate_proxy.keys.limit_kinds import (
    DAY,
    IN_FLIGHT,
    KINDS,
    MINUTE,
    REQUESTS,
    SLICES,
    LimitKind,
    Tokens,
)
from toolgate_proxy.limits import counters
from toolgate_proxy.limits.counters import MemoryCounter, RedisCounter
from toolgate_proxy.limits.limiter import Limiter
from toolgate_proxy.limits.reservation import Amount, CommandRefused, Reservation
from toolgate_proxy.redis_client import SharedRedis
from toolgate_proxy.settings import Settings

WINDOW = 6_000
"""Milliseconds of a sliding window in these tests."""
SHORT = replace(MINUTE, milliseconds=WINDOW)
SLICE = WINDOW // SLICES
LIMITS = {"rpm": 5, "tpm": 100, "max_parallel_requests": 3, "tokens_per_day": 400}
BEGIN = 1_795_000_000_000
"""Milliseconds since 1970."""
DAY_MS = DAY.milliseconds
MORE_KINDS = (
    LimitKind(name="requests_per_day", unit=REQUESTS, window=DAY),
    LimitKind(name="parallel_again", unit=REQUESTS, window=IN_FLIGHT),
)
"""Further kinds, which the counters support without any change."""
TOKENS_KEY, REQUESTS_KEY, LEASES_KEY, DAYS_KEY = COUNTERS = [
    f"toolgate:limit:{{key_1}}:{name}" for name in ("tokens", "requests", "leases", "days")
]


def request(at, tokens=1, limits=LIMITS, kinds=KINDS):
    """A request of a key with those limits."""
    amounts = []
    for kind in kinds:
        limit = limits.get(kind.name)
        if limit is not None or kind.counted_for != "keys with this limit":
            window = SHORT if kind.window == MINUTE else kind.window
            amount = kind.unit.amount(Tokens(tokens))
            amounts.append(Amount(replace(kind, window=window), limit, amount))
    return Reservation("key_1", f"r{at}", tuple(amounts))


async def admit(counter, request):
    """The reply, in a copy of the request."""
    made = replace(request, amounts=tuple(map(replace, request.amounts)))
    await counter.admit(made)
    return made


def correction(admitted, tokens, ended=True):
    """`tokens`: used beyond the reservation, or below 0: not used."""
    changes = []
    for each in admitted.amounts:
        amount = tokens if each.kind.unit.counts_output else 0
        if amount or each.kind.window == IN_FLIGHT:
            changes.append(Amount(each.kind, None, amount, each.period))
    return Reservation(admitted.key_id, admitted.request_id, tuple(changes), ended)


def refused(result):
    return None if result.refused is None else result.refused.kind.name


def in_redis(redis, lease=3600):
    return RedisCounter(SharedRedis(SecretStr(redis.url), 5.0), lease)


@pytest.fixture(scope="module")
def server():
    with redis_server() as server:
        yield server


@pytest.fixture
def redis(server):
    server.client.flushall()
    return server


class Clock:
    def __init__(self, redis):
        self.now, self._client = BEGIN, redis.client

    def __call__(self):
        return self.now / 1000

    def write(self):
        self._client.delete("clock")
        self._client.rpush("clock", self.now // 1000, self.now % 1000 * 1000)


@pytest.fixture
def redis_clock(redis, monkeypatch):
    """The scripts read the time from a list, which the test sets."""
    for script in (counters.ADMIT, counters.UPDATE):
        text = script._text.replace("redis.call('TIME')", "redis.call('LRANGE', 'clock', 0, 1)")
        assert text != script._text
        monkeypatch.setattr(script, "_text", text)
        monkeypatch.setattr(script, "_sha", "0" * 40)
    return redis


def both_counters(redis, clock, lease=3600):
    shared = SharedRedis(SecretStr(redis.url), 5.0)
    return shared, (RedisCounter(shared, lease), MemoryCounter(clock))


def used(result):
    return {each.kind.name: each.used for each in result.amounts}


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.integers(0, 2 * WINDOW)),
        st.tuples(st.just("wait"), st.integers(0, 2 * DAY_MS)),
        st.tuples(st.just("admit"), st.integers(0, 120)),
        st.tuples(st.just("end"), st.integers(-30, 60)),
    ),
    max_size=40,
)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kinds", [KINDS, KINDS + MORE_KINDS], ids=["ours", "more"])
@settings(
    max_examples=repeats(20, nightly=60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(actions=ACTIONS)
def test_redis_and_memory_counters_return_the_same_results(redis_clock, kinds, actions):
    limits = {**LIMITS, "requests_per_day": 7, "parallel_again": 4}

    async def run():
        redis_clock.client.flushall()
        clock, running = Clock(redis_clock), []
        shared, counters = both_counters(redis_clock, clock, 10 * 86_400)
        for at, (action, number) in enumerate(actions):
            clock.write()
            if action == "wait":
                clock.now += number
            elif action == "admit":
                asked = request(at, number, limits, kinds)
                one, other = [await admit(counter, asked) for counter in counters]
                assert one == other
                if one.refused is None:
                    running.append(one)
            elif running:
                admitted = running.pop(0)
                reserved = next(c.amount for c in admitted.amounts if c.kind.name == "tpm")
                for counter in counters:
                    await counter.correct(correction(admitted, max(number, -reserved)))
        await shared.aclose()

    asyncio.run(run())


@settings(max_examples=repeats(66, nightly=200), deadline=None)
@given(steps=st.lists(st.tuples(st.integers(0, 1500), st.integers(1, 60)), max_size=60))
def test_no_window_exceeds_the_limit(server, steps):
    """A refused request exceeds a limit, and is admitted after the returned wait."""
    clock, limits, admitted = Clock(server), {"rpm": 5, "tpm": 100}, []
    counter = MemoryCounter(clock)

    async def run():
        for at, (pause, tokens) in enumerate(steps):
            clock.now += pause
            result = await admit(counter, request(at, tokens, limits))
            if result.refused is not None:
                recent = [t for when, t in admitted if when > clock.now - WINDOW - SLICE]
                assert len(recent) + 1 > 5 or sum(recent) + tokens > 100
            for _ in range(2):  # the other limit may refuse, after the first
                if result.refused is not None:
                    clock.now += result.wait_ms
                    result = await admit(counter, request(at, tokens, limits))
            assert result.refused is None
            admitted.append((clock.now, tokens))
            window = [t for when, t in admitted if when > clock.now - WINDOW]
            assert len(window) <= 5
            assert sum(window) <= 100

    asyncio.run(run())


@pytest.fixture(params=["redis", "memory"])
def counter(request, redis):
    return in_redis(redis) if request.param == "redis" else MemoryCounter()


async def test_a_refused_request_is_not_counted(counter):
    big = await admit(counter, request(1, 101))
    assert (refused(big), big.wait_ms) == ("tpm", -1)
    for at in range(3):
        assert (await admit(counter, request(at, 10))).refused is None
    full = await admit(counter, request(4, 10))
    assert (refused(full), full.wait_ms) == ("max_parallel_requests", 0)
    assert used(full) == {"rpm": 3, "tpm": 30, "max_parallel_requests": 3, "tokens_per_day": 30}


async def test_tokens_beyond_the_reservation_are_charged(counter):
    """A response that has begun is not cut off; the next request is refused."""
    first = await admit(counter, request(1, 10))
    await counter.correct(correction(first, 140, ended=False))
    after = await admit(counter, request(2, 1))
    assert refused(after) == "tpm"
    assert (used(after)["tpm"], used(after)["max_parallel_requests"]) == (150, 1)
    assert 0 < after.wait_ms <= WINDOW + SLICE


@pytest.mark.parametrize("name", ["tokens_per_day", "requests_per_day"])
async def test_a_limit_per_day_resets_at_midnight_utc(counter, name):
    limits = {name: 100 if name == "tokens_per_day" else 1}
    kinds = KINDS + MORE_KINDS
    assert (await admit(counter, request(1, 100, limits, kinds))).refused is None
    after = await admit(counter, request(2, 1, limits, kinds))
    assert refused(after) == name
    midnight = DAY_MS - time.time() * 1000 % DAY_MS
    assert abs(after.wait_ms - midnight) < 60_000
    [limited] = [each for each in after.amounts if each.kind.name == name]
    assert abs(limited.reset_ms - midnight) < 60_000


async def test_what_was_counted_later_than_the_reservation_is_returned(redis_clock):
    """It is in another slice of the window than the reservation, to which all is returned."""
    clock = Clock(redis_clock)
    shared, counters = both_counters(redis_clock, clock)
    for counter in counters:
        clock.write()
        first = await admit(counter, request(1, 10))
        clock.now += 3 * SLICE
        clock.write()
        await counter.correct(correction(first, 30, ended=False))
        await counter.correct(correction(first, -35))
        after = await admit(counter, request(2, 1))
        assert used(after)["tpm"] == used(after)["tokens_per_day"] == 6
    await shared.aclose()


async def test_keys_without_limits_are_counted_per_day_only(redis_clock):
    clock = Clock(redis_clock)
    shared, counters = both_counters(redis_clock, clock)
    kind, day = next(k for k in KINDS if k.name == "tokens_per_day"), BEGIN // DAY_MS
    for at in range(5):
        clock.write()
        for counter in counters:
            change = Amount(kind, None, 7, day + at)
            await counter.correct(Reservation("key_1", f"r{at}", (change,), True))
        clock.now += DAY_MS
    in_days = redis_clock.client.hgetall(DAYS_KEY)
    assert int(in_days.pop(b"last")) == clock.now - DAY_MS
    days = {int(each): int(tokens) for each, tokens in in_days.items()}
    in_memory = counters[1]._keys["key_1"]
    assert days == {day + 3: 7, day + 4: 7}
    assert in_memory["tokens_per_day"].counts == {day + 4: 7}
    assert redis_clock.client.keys("toolgate:limit:*") == [DAYS_KEY.encode()]
    assert in_memory.keys() == {"tokens_per_day"}
    await shared.aclose()


async def test_a_lease_counts_until_it_is_no_longer_renewed(redis):
    """Beside one that is renewed for longer."""
    limits, counter = {"max_parallel_requests": 2}, in_redis(redis, lease=1.0)
    first, second = [await admit(counter, request(at, 1, limits)) for at in (1, 2)]

    async def renewed(*held):
        """Return what refuses a third request after that."""
        await asyncio.sleep(0.2)
        for admitted in held:
            await counter.correct(correction(admitted, 0, ended=False))
        return refused(await admit(counter, request(3, 1, limits)))

    for _ in range(8):
        assert await renewed(first, second) == "max_parallel_requests"
    async with asyncio.timeout(5):
        while await renewed(second):
            pass


async def test_counting_continues_when_redis_is_out_of_memory(redis_at_hand):
    """Redis refuses commands that need memory only if the script has not written yet."""
    counter, client = in_redis(redis_at_hand), redis_at_hand.client
    first = await admit(counter, request(1, 90, {"tpm": 100, "rpm": 2}))
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", 1)
    await counter.correct(correction(first, -80))
    again = [await admit(counter, request(at, 45, {"tpm": 100, "rpm": 2})) for at in (2, 3)]
    assert [refused(each) for each in again] == [None, "rpm"]
    full = [await admit(counter, request(at, 45, {"tpm": 100})) for at in (4, 5)]
    assert [refused(each) for each in full] == [None, "tpm"]


async def test_limits_may_exceed_64_bits_and_names_of_counters_are_stable(redis):
    """Operators write such a limit instead of none; gateways of different versions share the
    counters."""
    limits = {**LIMITS, "tpm": 10**30, "tokens_per_day": 2**70}
    assert refused(await admit(in_redis(redis), request(1, 10, limits))) is None
    assert {key.decode() for key in redis.client.keys("*")} == {*COUNTERS}


@pytest.mark.parametrize(
    ("name", "wanted"), [(TOKENS_KEY, "hash"), (REQUESTS_KEY, "hash"), (LEASES_KEY, "zset")]
)
async def test_the_error_names_the_counter_and_its_type(redis, name, wanted, caplog):
    client, counter = redis.client, in_redis(redis)
    client.rpush(name, "not a counter")
    for at in range(3):
        with pytest.raises(CommandRefused) as refusal:
            await admit(counter, request(at))
        assert f"WRONGTYPE {name} is a list, but must be a {wanted}" in str(refusal.value)
        assert "toolgate:" not in refusal.value.reason, "clients see the reason"
    assert client.keys() == [name.encode()], "no other counter has counted"
    assert caplog.text.count(f"WRONGTYPE {name}") == 1
    client.delete(name)
    assert (await admit(counter, request(9))).refused is None


def contents(redis, but=""):
    """The value of each counter's one period."""
    found = {}
    for name in {TOKENS_KEY, REQUESTS_KEY, DAYS_KEY} - {but}:
        held = redis.client.hgetall(name)
        held.pop(b"last", None)
        [found[name]] = held.values()
    return found


@rotating(
    "name,value",
    [
        (TOKENS_KEY, None),  # a list
        *((n, v) for n in (TOKENS_KEY, REQUESTS_KEY, DAYS_KEY) for v in ("1.5", "x", "1e300")),
    ],
    one_in=2,
)
async def test_a_damaged_counter_changes_no_other_one(redis, name, value, caplog):
    """Neither is the request counted in some of its counters, nor is the correction of the others
    repeated."""
    client, counter = redis.client, in_redis(redis)
    admitted = await admit(counter, request(1, 10))
    before = contents(redis, but=name)
    if value is None:
        client.delete(name)
        client.rpush(name, "not a counter")
    else:
        periods = [field for field in client.hkeys(name) if field != b"last"]
        client.hset(name, mapping=dict.fromkeys(periods, value))
    with pytest.raises(CommandRefused):
        await admit(counter, request(2, 10))
    assert contents(redis, but=name) == before
    assert client.zcard(LEASES_KEY) == 1
    await counter.correct(correction(admitted, -4))
    left = {TOKENS_KEY: b"6", REQUESTS_KEY: b"1", DAYS_KEY: b"6"}
    del left[name]
    assert contents(redis, but=name) == left
    assert f"WRONGTYPE {name}" in caplog.text
    assert client.zcard(LEASES_KEY) == 0


@pytest.mark.parametrize("policy", ["closed", "open"])
async def test_limits_with_a_wrong_counter_follow_the_policy_for_a_missing_redis(redis, policy):
    limiter = Limiter(Settings(redis_url=SecretStr(redis.url), limits_without_redis=policy))
    key, one = key_of(new_key(), rpm=1), Tokens(1)
    await limiter.started()
    redis.client.rpush(f"toolgate:limit:{{{key.id}}}:requests", "not a counter")
    if policy == "open":
        lease = await limiter.admit(key, "r1", one, lambda: one)
        assert lease.headers["x-ratelimit-remaining-requests"] == "0"
    else:
        with pytest.raises(LimitsUnavailable, match="Redis refused the command") as refusal:
            await limiter.admit(key, "r1", one, lambda: one)
        assert refusal.value.status == 503
        assert "toolgate:" not in refusal.value.message
        assert key.id not in refusal.value.message
    assert limiter.counted == "fleet", "Redis responds"
    await limiter.aclose()


@pytest.mark.exhaustive
async def test_updates_that_redis_refuses_do_not_stop_those_of_other_requests(redis):
    """More refused updates than one exchange has: leases of other requests are still renewed."""
    limiter = Limiter(Settings(redis_url=SecretStr(redis.url)), 2)
    await limiter.started()
    client, one = redis.client, Tokens(1)
    wrong = key_of(new_key(), max_parallel_requests=200, rpm=500)
    good = key_of(new_key(), max_parallel_requests=1)
    broken = [await limiter.admit(wrong, f"w{at}", one, lambda: Tokens(50)) for at in range(70)]
    assert broken
    await limiter.admit(good, "g", one, lambda: one)
    days = f"toolgate:limit:{{{wrong.id}}}:days"
    client.hset(days, mapping=dict.fromkeys(client.hkeys(days), "x"))
    await asyncio.sleep(3)  # longer than a lease
    assert client.zcard(f"toolgate:limit:{{{good.id}}}:leases") == 1
    await limiter.aclose()
