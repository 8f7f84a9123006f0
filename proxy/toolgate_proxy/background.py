"""Background tasks: work that must not delay a response, and polling that outlives errors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

logger = logging.getLogger("toolgate")

STEPS = 10
"""Steps of a time-out. It takes at least as many iterations of the event loop."""
TURNS_TO_READ = 5
"""Iterations of the event loop in which a reply that has arrived becomes a result."""

_tasks: set[asyncio.Task[Any]] = set()
"""References that prevent garbage collection of running tasks."""


def in_background(work: Coroutine[Any, Any, Any]) -> None:
    """Run `work` in a separate task. For an exception, only its class is logged."""
    task = asyncio.get_running_loop().create_task(work)
    _tasks.add(task)
    task.add_done_callback(_done)


async def finished(work: Coroutine[Any, Any, Result]) -> Result:
    """The result of `work`, which goes on in a task of its own if the caller is cancelled."""
    task = asyncio.create_task(work)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
    return await asyncio.shield(task)


async def within(seconds: float, work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of `work`. Raise TimeoutError after some seconds. Then, and if the caller
    is cancelled, `work` is cancelled, but nobody waits for its end, which may never come.

    Unlike asyncio.timeout, this does not count time in which this process was busy: it waits in
    steps, a step counts once even if it took longer, and a result that has arrived is read before
    the error."""
    task = asyncio.create_task(work)
    without_owner(task)
    try:
        for _ in range(STEPS):
            if (await asyncio.wait({task}, timeout=seconds / STEPS))[0]:
                return task.result()
        for _ in range(TURNS_TO_READ):
            await asyncio.sleep(0)
        if not task.done():
            raise TimeoutError
        return task.result()
    finally:
        task.cancel()


def without_owner(task: asyncio.Task[Any]) -> None:
    """For a task that several callers await, each with a shield. If all of them are cancelled,
    its exception is not read, which asyncio would report when the task is garbage-collected."""
    task.add_done_callback(_retrieve)


def _retrieve(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


def _done(task: asyncio.Task[Any]) -> None:
    _tasks.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.warning("A background task failed (%s).", type(error).__name__)


async def poll_forever(
    poll: Callable[[], Awaitable[None]], seconds: float, logger: logging.Logger, failed: str
) -> None:
    """Call `poll` every `seconds` until cancelled. Log `failed` and the class of each error."""
    while True:
        try:
            await poll()
        except Exception as error:  # noqa: BLE001  polling must survive all errors
            logger.warning("%s (%s).", failed, type(error).__name__)
        await asyncio.sleep(seconds)
