"""Work for which nobody waits longer than a time limit."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from toolgate_proxy.background import within


class Stubborn:
    """Work that goes on although it is cancelled."""

    def __init__(self) -> None:
        self.released, self.ended = asyncio.Event(), asyncio.Event()

    async def work(self) -> None:
        while not self.released.is_set():
            with suppress(asyncio.CancelledError):
                await self.released.wait()
        self.ended.set()


async def test_the_result_and_the_error_are_those_of_the_work() -> None:
    async def done(error: Exception | None) -> int:
        await asyncio.sleep(0)
        if error is not None:
            raise error
        return 7

    assert await within(60, done(None)) == 7
    with pytest.raises(KeyError):
        await within(60, done(KeyError()))


async def test_nobody_waits_for_work_that_does_not_end() -> None:
    stubborn = Stubborn()
    with pytest.raises(TimeoutError):
        await within(0.01, stubborn.work())
    assert not stubborn.ended.is_set()
    stubborn.released.set()
    await stubborn.ended.wait()


async def test_a_cancelled_caller_ends_at_once_and_cancels_the_work() -> None:
    stubborn, cancelled = Stubborn(), asyncio.Event()

    async def noting() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    for work in (stubborn.work(), noting()):
        caller = asyncio.create_task(within(60, work))
        await asyncio.sleep(0.01)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
    await cancelled.wait()
    stubborn.released.set()
    await stubborn.ended.wait()
