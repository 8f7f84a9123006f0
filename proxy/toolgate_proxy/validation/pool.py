"""The gateway's hold on its validation workers: a few processes, killed where they go over."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pydantic import ValidationError

from . import worker as validation_worker
from .worker import Answer, Job

LINE_LIMIT = 2**20
"""Bytes that an answer may take."""


class OverLimits(Exception):
    """The job took more time or memory than it may, or broke the process that was at it."""


class NoneFree(Exception):
    """All workers were at others' jobs for as long as one job may take."""


class ValidationPool:
    """Workers start when they are needed first. Each has one job at a time; jobs wait in turn."""

    def __init__(self, *, workers: int, cpu_seconds: float, wall_seconds: float) -> None:
        self._free = asyncio.Semaphore(workers)
        self._idle: list[asyncio.subprocess.Process] = []
        self._cpu_seconds = cpu_seconds
        self._wall_seconds = wall_seconds

    @property
    def cpu_seconds(self) -> float:
        return self._cpu_seconds

    async def ask(self, job: Job) -> Answer:
        """Raises OverLimits and NoneFree."""
        async with self._worker_free():
            self._idle = [worker for worker in self._idle if worker.returncode is None]
            worker = self._idle.pop() if self._idle else await _start()
            try:
                async with asyncio.timeout(self._wall_seconds):
                    told = await _exchange(worker, job)
            except BaseException as error:
                await _end(worker)
                if isinstance(error, TimeoutError | OSError | ValueError):
                    raise OverLimits from error
                raise
            self._idle.append(worker)
            return told

    @asynccontextmanager
    async def _worker_free(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._wall_seconds):
                await self._free.acquire()
        except TimeoutError as error:
            raise NoneFree from error
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


async def _exchange(worker: asyncio.subprocess.Process, job: Job) -> Answer:
    assert worker.stdin is not None
    assert worker.stdout is not None
    # pydantic's writer knows no lone surrogates; those are refused before (grammars.check_tool).
    worker.stdin.write(job.model_dump_json().encode() + b"\n")
    await worker.stdin.drain()
    line = await worker.stdout.readline()
    try:
        return Answer.model_validate_json(line)
    except ValidationError as error:  # an empty line: it died
        raise OverLimits from error


async def _end(worker: asyncio.subprocess.Process) -> None:
    if worker.returncode is None:
        worker.kill()
        await worker.wait()
