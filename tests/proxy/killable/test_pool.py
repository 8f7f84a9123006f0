"""Workers that are killed by something other than their limits: the job is repeated, and its schema
is never blamed."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.proxy.validation.test_service import doubling, tool
from tests.support.processor_time import processor_time
from toolgate_core.errors import ArgumentsNotChecked, ChecksFailed
from toolgate_proxy.killable import pool as pool_module
from toolgate_proxy.killable.pool import LimitExceeded, WorkerPool
from toolgate_proxy.validation import worker as validation_worker
from toolgate_proxy.validation.service import ValidationService
from toolgate_proxy.validation.worker import Job, JobResult

pytestmark = pytest.mark.timed

Pool = WorkerPool[JobResult]

SLOW = doubling(26)
"""A valid schema whose validation takes about a second. No arguments violate it except objects with
more than three members."""
ENDLESS = doubling(60)


def job(schema: dict[str, Any], arguments: str = "{}") -> Job:
    return Job(tool_schema=schema, arguments=arguments, cpu_seconds=60)


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    made = WorkerPool(
        validation_worker.__name__,
        JobResult,
        work="validate",
        workers=1,
        cpu_seconds=60,
        wall_seconds=120,
    )
    yield made
    for worker in made._idle:
        worker.kill()
        await worker.wait()


async def working() -> int:
    """The pid of the validation worker of this process that is validating."""
    async with asyncio.timeout(60):
        while True:
            for pid in _workers():
                before = processor_time(pid)
                await asyncio.sleep(0.1)
                # It was idle, or read its modules, if it used less.
                if _started(pid) and processor_time(pid) - before >= 5:
                    return pid
            await asyncio.sleep(0.02)


async def kill_working(number: signal.Signals) -> None:
    pid = await working()
    os.kill(pid, number)
    while pid in _workers():  # noqa: ASYNC110  another process's end
        await asyncio.sleep(0.02)


def _workers() -> list[int]:
    pids: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        # A thread or a child may have ended since it was listed.
        with suppress(FileNotFoundError, ProcessLookupError):
            for child in (task / "children").read_text().split():
                line = Path(f"/proc/{child}/cmdline").read_bytes()
                if validation_worker.__name__.encode() in line:
                    pids.append(int(child))
    return pids


def _started(pid: int) -> bool:
    """Whether its memory limit is set, which it does after it has loaded its modules."""
    limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return "unlimited" not in next(line for line in limits if line.startswith("Max address"))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL, signal.SIGSEGV, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)],
)
async def test_the_job_of_a_killed_worker_is_repeated(pool: Pool, number: signal.Signals) -> None:
    running = asyncio.create_task(pool.run(job(SLOW)))
    await kill_working(number)
    assert await running == JobResult()


async def test_a_worker_killed_between_jobs_is_replaced(pool: Pool) -> None:
    """Even if its end was not noticed yet."""
    await pool.run(job({}))
    [worker] = pool._idle
    os.kill(worker.pid, signal.SIGKILL)
    assert await pool.run(job({"maxProperties": 0})) == JobResult()


async def test_a_job_whose_workers_are_killed_twice_has_no_result(pool: Pool) -> None:
    running = asyncio.create_task(pool.run(job(ENDLESS)))
    for _ in range(2):
        await kill_working(signal.SIGKILL)
    with pytest.raises(ChecksFailed):
        await running
    assert await pool.run(job({})) == JobResult()


async def test_a_job_that_crashes_two_workers_is_over_a_limit(pool: Pool) -> None:
    running = asyncio.create_task(pool.run(job(ENDLESS)))
    for _ in range(2):
        await kill_working(signal.SIGSEGV)
    with pytest.raises(LimitExceeded):
        await running


@pytest.mark.exhaustive
async def test_a_job_out_of_memory_is_over_a_limit(pool: Pool) -> None:
    values = ",".join(["[]"] * 40_000_000)
    with pytest.raises(LimitExceeded):
        await pool.run(job({}, f'{{"a": [{values}]}}'))


async def test_workers_that_do_not_start_give_no_result(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module.sys, "executable", "/bin/false")
    with pytest.raises(ChecksFailed):
        await pool.run(job({}))


async def test_killed_workers_are_a_503_and_no_verdict_on_the_schema() -> None:
    service, slow = ValidationService(cpu_seconds=60), tool(ENDLESS)
    running = asyncio.create_task(service.check(slow, "{}"))
    for _ in range(2):
        await kill_working(signal.SIGKILL)
    with pytest.raises(ChecksFailed) as failed:
        await running
    assert (failed.value.status, failed.value.retry_after) == (503, 1)
    assert not isinstance(failed.value, ArgumentsNotChecked)


async def test_killed_workers_leave_a_new_schema_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next request with the schema checks it again."""
    service, new = ValidationService(), tool(doubling(40))
    with monkeypatch.context() as patched:
        patched.setattr(pool_module.sys, "executable", "/bin/false")
        with pytest.raises(ChecksFailed):
            await service.prepare([new], {"t": "tools"})
    assert new.hash not in service._cache
    await service.prepare([new], {"t": "tools"})
