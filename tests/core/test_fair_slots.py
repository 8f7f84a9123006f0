"""No owner has all slots, owners take turns, and tasks that leave give back what they had."""

from __future__ import annotations

import asyncio

import pytest

from toolgate_core.killable import FairSlots


class Jobs:
    """Jobs that run until they are ended, and the order in which they began."""

    def __init__(self, count: int) -> None:
        self.slots = FairSlots(count)
        self.begun: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def add(self, *names: str) -> None:
        """The first letter of a name is its owner."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self._tasks[name] = asyncio.create_task(self._run(name))
        await asyncio.sleep(0.01)

    async def _run(self, name: str) -> None:
        async with self.slots.slot(name[0], 60):
            self.begun.append(name)
            await self._ends[name].wait()

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await self._tasks[name]
        await asyncio.sleep(0.01)

    async def cancel(self, *names: str) -> None:
        for name in names:
            self._tasks[name].cancel()
        await asyncio.sleep(0.01)


async def test_a_slot_is_left_for_other_owners():
    jobs = Jobs(2)
    await jobs.add("a1", "a2", "a3")
    assert jobs.begun == ["a1"]
    await jobs.add("b1")
    assert jobs.begun == ["a1", "b1"]
    await jobs.end("b1")
    assert jobs.begun == ["a1", "b1"]
    await jobs.end("a1")
    assert jobs.begun == ["a1", "b1", "a2"]


async def test_owners_take_turns():
    jobs = Jobs(1)
    await jobs.add("a1", "a2", "a3", "a4", "b1", "b2", "c1")
    for name in ("a1", "a2", "b1", "c1", "a3", "b2"):
        assert jobs.begun[-1] == name
        await jobs.end(name)
    assert jobs.begun[-1] == "a4"


async def test_cancelled_jobs_give_back_their_slots_and_places():
    jobs = Jobs(2)
    await jobs.add("a1", "a2", "a3", "b1", "b2")
    await jobs.cancel("a2", "a1", "b1")
    assert jobs.begun == ["a1", "b1", "a3", "b2"]
    await jobs.end("a3")
    await jobs.end("b2")
    assert (jobs.slots._free, dict(jobs.slots._taken), dict(jobs.slots._waiting)) == (2, {}, {})


async def test_waiting_is_limited():
    slots = FairSlots(1)
    async with slots.slot("a", 1):
        with pytest.raises(TimeoutError):
            async with slots.slot("b", 0.02):
                raise AssertionError
    async with slots.slot("b", 1):
        pass
    assert not slots._waiting
