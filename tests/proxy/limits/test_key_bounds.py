"""The bounds of one key at a process: bodies in memory."""

from __future__ import annotations

import asyncio

import pytest

from toolgate_core.errors import RateLimited
from toolgate_proxy.limits.key_bounds import BodyBudget, BodyReservation


@pytest.fixture
def budget() -> BodyBudget:
    return BodyBudget(100, small=5)


async def waiting(reservation: BodyReservation, size: int) -> asyncio.Task[None]:
    task = asyncio.create_task(reservation.wait(size))
    await asyncio.sleep(0)
    assert not task.done()
    return task


def test_bodies_grow_up_to_the_limit_of_their_owner(budget: BodyBudget) -> None:
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


async def test_bodies_of_known_length_wait_in_their_order(budget: BodyBudget) -> None:
    first = budget.open("a")
    await first.wait(70)
    large, small = budget.open("a"), budget.open("a")
    second = await waiting(large, 90)
    third = await waiting(small, 10)
    assert budget.used("a") == 70
    first.close()
    await second
    await third
    assert budget.used("a") == 100


async def test_small_bodies_do_not_wait_behind_large_ones(budget: BodyBudget) -> None:
    first, large = budget.open("a"), budget.open("a")
    await first.wait(100)
    second = await waiting(large, 90)
    small = budget.open("a")
    await small.wait(5)
    small.resize(4)
    assert budget.used("a") == 104
    small.close()
    first.close()
    await second


async def test_a_body_that_no_longer_waits_lets_the_next_one_pass(budget: BodyBudget) -> None:
    first = budget.open("a")
    await first.wait(50)
    left, small = budget.open("a"), budget.open("a")
    second = await waiting(left, 90)
    third = await waiting(small, 50)
    second.cancel()
    await third
    left.close()
    assert (left.size, budget.used("a")) == (0, 100)


async def test_a_body_that_leaves_as_it_is_granted_gives_back_its_bytes(
    budget: BodyBudget,
) -> None:
    first, second = budget.open("a"), budget.open("a")
    await first.wait(100)
    task = await waiting(second, 100)
    first.close()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    second.close()
    assert budget.used("a") == 0


async def test_nothing_is_kept_of_owners_without_bodies(budget: BodyBudget) -> None:
    for owner in map(str, range(100)):
        reservation = budget.open(owner)
        await reservation.wait(5)
        reservation.close()
    assert not budget._used
    assert not budget._waiting
