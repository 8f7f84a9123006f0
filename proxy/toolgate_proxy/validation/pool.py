"""Pool of validation workers: a few processes, which are killed if they exceed their limits."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pydantic import ValidationError

from . import worker as validation_worker
from .worker import Job, JobResult

LINE_LIMIT = 2**20
"""Maximum size of a result in bytes."""


class LimitExceeded(Exception):
    """The job exceeded its limit on time or memory, or its worker died."""


class NoFreeWorker(Exception):
    """All workers were busy for as long as one job may take."""


class ValidationPool:
    """Workers start when they are first needed. Each runs one job at a time; other jobs wait."""

    def __init__(self, *, workers: int, cpu_seconds: float, wall_seconds: float) -> None:
        self._free = asyncio.Semaphore(workers)
        self._idle: list[asyncio.subprocess.Process] = []
        self._cpu_seconds = cpu_seconds
        self._wall_seconds = wall_seconds

    @property
    def cpu_seconds(self) -> float:
        return self._cpu_seconds

    async def run(self, job: Job) -> JobResult:
        """Raises LimitExceeded and NoFreeWorker."""
        async with self._slot():
            self._idle = [worker for worker in self._idle if worker.returncode is None]
            worker = self._idle.pop() if self._idle else await _start()
            try:
                async with asyncio.timeout(self._wall_seconds):
                    result = await _exchange(worker, job)
            except BaseException as error:
                await _kill(worker)
                if isinstance(error, TimeoutError | OSError | ValueError):
                    raise LimitExceeded from error
                raise
            self._idle.append(worker)
            return result

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._wall_seconds):
                await self._free.acquire()
        except TimeoutError as error:
            raise NoFreeWorker from error
        try:
            yield
        finally:
            self._free.release()


async def _start() -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        validation_worker.__name__,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=LINE_LIMIT,
    )


async def _exchange(worker: asyncio.subprocess.Process, job: Job) -> JobResult:
    assert worker.stdin is not None
    assert worker.stdout is not None
    # pydantic's serializer fails on lone surrogates. grammars.service.check_tool refuses them.
    worker.stdin.write(job.model_dump_json().encode() + b"\n")
    await worker.stdin.drain()
    line = await worker.stdout.readline()
    try:
        return JobResult.model_validate_json(line)
    except ValidationError as error:  # the line is empty if the worker died
        raise LimitExceeded from error


async def _kill(worker: asyncio.subprocess.Process) -> None:
    if worker.returncode is None:
        worker.kill()
        await worker.wait()
