"""A worker's memory goes back to the system, and its tasks may outlive those who wait: shared by
several requests, or bounded in time.

asyncio reports the exception of a task that nobody has awaited to its end ("exception was never
retrieved"), although the failure concerns nobody.
"""

import asyncio
import platform
import subprocess
import sys
from contextlib import suppress

import pytest

from tests.support.loop_errors import no_loop_errors
from toolgate_core.errors import BackendFailed
from toolgate_proxy.backend_client.client import Backend
from toolgate_proxy.background import within
from toolgate_proxy.settings import Settings


class Failing(Backend):
    """A backend whose every exchange fails after a pause."""

    def __init__(self):
        super().__init__("http://x", None, Settings())

    async def _fetch_info(self):
        await asyncio.sleep(0.02)
        raise BackendFailed("by script")


async def test_failure_of_a_task_without_waiters_is_not_reported():
    async with no_loop_errors():
        waiting = asyncio.ensure_future(Failing().info())
        await asyncio.sleep(0.01)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        del waiting
        await asyncio.sleep(0.05)


async def test_failure_of_redis_after_its_timeout_is_not_reported():
    async def command():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ConnectionError from None

    async with no_loop_errors():
        with pytest.raises(TimeoutError):
            await within(0.01, command())


async def test_unread_exceptions_are_found():
    async def fail():
        raise ValueError

    async def forget():
        async with no_loop_errors():
            asyncio.create_task(fail())  # noqa: RUF006
            await asyncio.sleep(0.01)

    with pytest.raises(AssertionError, match="never retrieved"):
        await forget()


class Stubborn:
    """Work that goes on although it is cancelled."""

    def __init__(self):
        self.released, self.ended = asyncio.Event(), asyncio.Event()

    async def work(self):
        while not self.released.is_set():
            with suppress(asyncio.CancelledError):
                await self.released.wait()
        self.ended.set()


async def test_the_result_and_the_error_are_those_of_the_work():
    async def done(error):
        await asyncio.sleep(0)
        if error is not None:
            raise error
        return 7

    assert await within(60, done(None)) == 7
    with pytest.raises(KeyError):
        await within(60, done(KeyError()))


async def test_nobody_waits_for_work_that_does_not_end():
    stubborn = Stubborn()
    with pytest.raises(TimeoutError):
        await within(0.01, stubborn.work())
    assert not stubborn.ended.is_set()
    stubborn.released.set()
    await stubborn.ended.wait()


async def test_a_cancelled_caller_ends_at_once_and_cancels_the_work():
    stubborn, cancelled = Stubborn(), asyncio.Event()

    async def noting():
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


FREED = """
import psutil
if {set_up}:
    from toolgate_proxy import worker
    worker.return_freed()
del (first := [b"x" * 20_000_000])[:]
large = [b"x" * 20_000_000 for _ in range(5)]
behind = b"x" * 100_000
before = psutil.Process().memory_info().rss
large.clear()
print(before - psutil.Process().memory_info().rss)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_large_blocks_are_returned_though_small_ones_lie_behind_them():
    freed = {}
    for set_up in (True, False):
        command = [sys.executable, "-c", FREED.format(set_up=set_up)]
        freed[set_up] = int(subprocess.run(command, check=True, capture_output=True).stdout)
    assert freed[True] > 95_000_000 > freed[False], "if both: remove return_freed"
