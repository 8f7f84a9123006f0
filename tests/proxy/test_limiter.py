"""The limiter: every kind of limit from the command line to the error, reservations, settlement,
its behaviour without Redis, and the bounds on bodies in memory."""

import asyncio
import re
import time

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from tests.support.servers.gateway_process import KEY_SECRET
from tests.support.servers.virtual_keys import HASHER, key_of, store
from tests.support.waiting import until
from toolgate_core.errors import LimitsUnavailable, RateLimited
from toolgate_proxy.keys.file_store import read_keys
from toolgate_proxy.keys.key import new_key, now
from toolgate_proxy.keys.limit_kinds import KINDS, Tokens
from toolgate_proxy.keys.redis_store import KeyUsage
from toolgate_proxy.limits.counters import MemoryCounter
from toolgate_proxy.limits.key_bounds import BodyBudget
from toolgate_proxy.limits.limiter import Lease, Leases, Limiter
from toolgate_proxy.limits.reservation import Amount, NoResponse, Reservation, duration
from toolgate_proxy.ops.cli import app
from toolgate_proxy.ops.keys import of_keys
from toolgate_proxy.ops.stack.processes import free_port
from toolgate_proxy.settings import Settings

SLACK = 2.0
"""Seconds that a busy machine may add to Redis' time-out."""
EACH_KIND = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
BY_NAME = {kind.name: kind for kind in KINDS}


def limiter_of(url=None, **more):
    return Limiter(Settings(redis_url=SecretStr(url) if url else None, **more))


@pytest.fixture
async def shared(redis_at_hand):
    """A limiter that counts in Redis."""
    limiter = limiter_of(redis_at_hand.url)
    await limiter.started()
    yield limiter
    await limiter.aclose()


@pytest.fixture
async def alone():
    """A limiter that counts in the process."""
    limiter = limiter_of()
    yield limiter
    await limiter.aclose()


def limited(**limits):
    return key_of(new_key(), "search", **limits)


def held(leases, request_id, amount, used, counter):
    """The lease of a request that was counted with that amount."""
    counted = Reservation("key_1", request_id, (amount,))
    return leases.hold(Lease(limited(), counted, used, counter, leases))


def uses(tokens):
    return lambda: Tokens(tokens)


@pytest.mark.parametrize("field", ["name", "counter", "label", "header", "flag", "column"])
def test_the_names_of_kinds_differ(field):
    assert len({getattr(kind, field) for kind in KINDS}) == len(KINDS)


def test_requests_in_flight_are_counted_only_for_keys_with_a_limit():
    """Other keys have no leases that their gateway would renew."""
    counted = {kind.counted_for for kind in KINDS if kind.window.type == "in_flight"}
    assert counted == {"keys with this limit"}


@EACH_KIND
def test_the_command_line_sets_a_limit(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("TOOLGATE_KEY_SECRET", KEY_SECRET)
    created = CliRunner().invoke(app, ["keys", "create", "a", kind.flag, "7", "--yaml"])
    assert created.exit_code == 0, created.output
    path = tmp_path / "keys.yaml"
    path.write_text(f"keys:\n{created.stdout}")
    [key] = read_keys(path, HASHER)
    limits = {each.name: key.limits.of(each) for each in KINDS if key.limits.of(each)}
    assert limits == {kind.name: 7}
    assert key.shown(now())[kind.name] == 7
    assert f"{kind.column} 7" in of_keys([(key, KeyUsage())], now())


@EACH_KIND
async def test_a_limit_is_in_the_headers_and_refuses(kind, shared, redis_at_hand):
    tokens = Tokens(3, 2, 1)
    limit = kind.unit.amount(tokens)
    key = limited(**{kind.name: limit})
    lease = await shared.admit(key, "r1", tokens, lambda: tokens)
    names = {f"x-ratelimit-{field}-{kind.header}" for field in ("limit", "remaining", "reset")}
    assert lease.headers[f"x-ratelimit-limit-{kind.header}"] == str(limit)
    assert lease.headers[f"x-ratelimit-remaining-{kind.header}"] == "0"
    assert lease.headers.keys() <= names
    reset = lease.headers.get(f"x-ratelimit-reset-{kind.header}")
    assert (reset is not None) == (kind.name in ("rpm", "tpm"))
    assert reset is None or re.fullmatch(r"(\d+[hm])*(\d+m?s|\d+\.\d+s)", reset)
    with pytest.raises(RateLimited) as refused:
        await shared.admit(key, "r2", tokens, lambda: tokens)
    a_day = kind.name.endswith("_per_day")
    assert refused.value.code == ("insufficient_quota" if a_day else "rate_limit_exceeded")
    assert f"'search' has reached its limit of {limit} {kind.title}" in refused.value.message
    assert refused.value.retry_after
    with pytest.raises(RateLimited, match="request again in" if limit == 1 else "needs up to"):
        await shared.admit(key, "r3", Tokens(90, 90, 1), lambda: tokens)
    await lease.settle()
    keys = store(redis_at_hand.url)
    if kind.usage_field is not None:
        [usage] = await keys.usages([key], now())
        assert usage.today[kind.usage_field] == limit
        assert abs((now() - usage.last_used).total_seconds()) < 600
    await keys.aclose()


@EACH_KIND
async def test_unused_reservations_are_returned(kind, shared):
    key = limited(**{kind.name: 100})
    for at in range(2):
        lease = await shared.admit(key, f"r{at}", Tokens(30, 30), lambda: Tokens(10, 5))
        remaining = lease.headers[f"x-ratelimit-remaining-{kind.header}"]
        used = 0 if kind.window.type == "in_flight" else at * kind.unit.amount(Tokens(10, 5))
        assert int(remaining) == 100 - used - kind.unit.amount(Tokens(30, 30))
        await lease.settle()


async def test_a_limiter_that_fails_open_counts_in_its_own_process(redis_at_hand):
    limiter, key = limiter_of(redis_at_hand.url, limits_without_redis="open"), limited(rpm=3)
    await limiter.started()
    await limiter.admit(key, "r1", Tokens(1), uses(1))
    redis_at_hand.kill()
    for at in range(3):
        await limiter.admit(key, f"k{at}", Tokens(1), uses(1))
    with pytest.raises(RateLimited):
        await limiter.admit(key, "k3", Tokens(1), uses(1))
    assert limiter.counted == "process"
    await limiter.aclose()


async def test_tokens_beyond_the_reservation_count_during_the_response(alone):
    key, written = limited(tpm=100), [0]
    lease = await alone.admit(key, "r1", Tokens(10), lambda: Tokens(0, written[0]))
    written[0] = 95
    await alone.leases._update(lease)
    with pytest.raises(RateLimited) as refused:
        await alone.admit(key, "r2", Tokens(10), uses(10))
    assert "used 95" in refused.value.message


async def test_only_keys_with_a_limit_on_tokens_check_the_count_of_a_prompt(alone):
    for limits, checked in (({}, False), ({"rpm": 5}, False), ({"tpm": 100}, True)):
        lease = await alone.admit(limited(**limits), "r", Tokens(9, 1), uses(1))
        before = [each.amount for each in lease.counted.amounts]
        await lease.admit_prompt(20)
        assert ([each.amount for each in lease.counted.amounts] != before) == checked


async def test_a_request_is_settled_once(alone):
    key = limited(tpm=100)
    lease = await alone.admit(key, "r1", Tokens(90), uses(20))
    for _ in range(3):
        await lease.settle()
    after = await alone.admit(key, "r2", Tokens(10), uses(10))
    assert after.headers["x-ratelimit-remaining-tokens"] == "70"
    assert alone.leases.in_flight == 1


async def test_a_settlement_without_a_response_is_repeated_even_if_its_caller_is_cancelled():
    asked, silent, updates = asyncio.Event(), asyncio.Event(), []

    class Silent(MemoryCounter):
        async def correct(self, correction):
            updates.append([each.amount for each in correction.amounts])
            if len(updates) == 1:
                asked.set()
                await silent.wait()
                raise NoResponse

    leases, amount = Leases(lease=0.3), Amount(BY_NAME["tpm"], None, 90)
    lease = held(leases, "r1", amount, uses(20), Silent())
    closing = asyncio.create_task(lease.settle())
    await asked.wait()
    closing.cancel()
    await asyncio.wait({closing})
    silent.set()
    await until(lambda: len(updates) >= 2)  # in the next round
    assert updates == [[-70], [-70]]
    await leases.aclose()


async def test_leases_of_in_flight_requests_are_renewed_concurrently():
    """One at a time, the leases of many requests would expire during a round."""
    waiting, met = asyncio.Barrier(20), asyncio.Event()

    class Meeting(MemoryCounter):
        async def correct(self, correction):
            await waiting.wait()
            met.set()

    leases, counter = Leases(lease=0.3), Meeting()
    for at in range(20):
        amount = Amount(BY_NAME["max_parallel_requests"], None, 1)
        held(leases, f"r{at}", amount, uses(0), counter)
    async with asyncio.timeout(10):
        await met.wait()
    await leases.aclose()


async def test_a_hung_redis_delays_only_the_first_request(shared, redis_at_hand):
    key, times = limited(rpm=50), []
    redis_at_hand.hang()
    try:
        for at in range(8):
            began = time.monotonic()
            with pytest.raises(LimitsUnavailable):
                await shared.admit(key, f"r{at}", Tokens(1), uses(1))
            times.append(time.monotonic() - began)
    finally:
        redis_at_hand.wake()
    assert max(times) < SLACK
    assert min(times) < 0.1, "after the first, nobody waits"


async def test_what_ended_while_redis_hung_is_settled_after_its_recovery(shared, redis_at_hand):
    key = limited(tpm=100, max_parallel_requests=1)
    lease = await shared.admit(key, "r1", Tokens(90), uses(20))
    redis_at_hand.hang()
    try:
        await lease.settle()
        assert shared.counted == "unavailable"
    finally:
        redis_at_hand.wake()
    await shared.started()
    await lease.settle()  # as the next round does
    after = await shared.admit(key, "r2", Tokens(70), uses(70))
    assert after.headers["x-ratelimit-remaining-tokens"] == "10"


async def test_redis_is_reached_once_it_has_responded_or_if_it_is_not_required(redis_at_hand):
    nowhere = f"redis://127.0.0.1:{free_port()}/0"
    reached, unreachable = limiter_of(redis_at_hand.url), limiter_of(nowhere)
    assert not reached.reached_redis
    for each in (reached, unreachable):
        await each.started()
    redis_at_hand.kill()
    assert (reached.reached_redis, unreachable.reached_redis) == (True, False)
    assert limiter_of(nowhere, limits_without_redis="open").reached_redis
    assert limiter_of().reached_redis
    for each in (reached, unreachable):
        await each.aclose()


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0ms"), (120, "120ms"), (1000, "1s"), (7500, "7.5s"), (60_000, "1m0s"), (360_000, "6m0s")],
)
def test_reset_durations_have_the_format_of_openai(milliseconds, text):
    assert duration(milliseconds) == text


@pytest.fixture
def budget():
    return BodyBudget(100, small=5)


async def waiting(reservation, size):
    task = asyncio.create_task(reservation.wait(size))
    await asyncio.sleep(0)
    assert not task.done()
    return task


def test_bodies_grow_up_to_the_limit_of_their_owner(budget):
    first, second, other = budget.open("a"), budget.open("a"), budget.open("b")
    first.resize(60)
    second.resize(40)
    with pytest.raises(RateLimited, match="Send fewer large requests") as refusal:
        second.resize(41)
    assert refusal.value.retry_after
    assert budget.used("a") == 60
    other.resize(100)
    first.close()
    second.resize(100)
    second.close()
    other.close()
    assert budget.used("a") == budget.used("b") == 0


async def test_bodies_of_known_length_wait_in_their_order(budget):
    first, large, small = (budget.open("a") for _ in range(3))
    await first.wait(70)
    second, third = await waiting(large, 90), await waiting(small, 10)
    assert budget.used("a") == 70
    first.close()
    await second
    await third
    assert budget.used("a") == 100


async def test_small_bodies_do_not_wait_behind_large_ones(budget):
    first, large, small = (budget.open("a") for _ in range(3))
    await first.wait(100)
    second = await waiting(large, 90)
    await small.wait(5)
    small.resize(4)
    assert budget.used("a") == 104
    small.close()
    first.close()
    await second


async def test_a_body_that_leaves_lets_the_next_one_pass_and_gives_back_its_bytes(budget):
    first, left, small = (budget.open("a") for _ in range(3))
    await first.wait(50)
    second, third = await waiting(left, 90), await waiting(small, 50)
    second.cancel()
    await third
    left.close()
    assert (left.size, budget.used("a")) == (0, 100)
    last = budget.open("a")
    task = await waiting(last, 100)
    first.close()
    small.close()  # it is granted
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    last.close()
    assert budget.used("a") == 0


async def test_nothing_is_kept_of_owners_without_bodies(budget):
    for owner in map(str, range(100)):
        reservation = budget.open(owner)
        await reservation.wait(5)
        reservation.close()
    assert not budget._used
    assert not budget.waiting
