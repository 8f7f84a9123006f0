"""Pool of worker processes for one type of job. They are killed if they exceed their limits.

The end of a worker is a result only if the job caused it: it exceeded a limit, or it crashed two
new processes. A worker that something else ended (the kernel, short of memory; an operator) is
replaced and its job repeated, and if that fails too, there is no result.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from toolgate_core.error_body import RETRY_SECONDS
from toolgate_core.errors import ChecksBusy, ChecksFailed
from toolgate_core.fair_slots import FairSlots

from .process import OUT_OF_MEMORY, READY, LimitedJob

LINE_LIMIT = 2**20
"""Maximum size of a result in bytes, unless the pool has one of its own."""
MAX_ATTEMPTS = 2
"""Attempts for one job if its worker dies."""
START_SECONDS = 60.0
"""Time-out for the start of a worker. It takes 0.2 s on an idle machine."""
EXIT_SECONDS = 5.0
"""Time-out between the end of a worker's output and its exit status."""
CRASHES = (
    signal.SIGABRT,  # the result of a failed allocation in Rust
    signal.SIGSEGV,  # the result of a stack overflow
    signal.SIGBUS,
    signal.SIGILL,
    signal.SIGFPE,
)
"""Signals that native code causes itself."""


class LimitExceeded(Exception):
    """The job exceeded its limit on time or memory, or crashed two workers."""


class _Ended(Exception):
    """A worker ended without a result. `crashed`: by a fault of native code."""

    def __init__(self, *, crashed: bool) -> None:
        super().__init__(crashed)
        self.crashed = crashed


ResultT = TypeVar("ResultT", bound=BaseModel)


class WorkerPool(Generic[ResultT]):
    """Workers start when they are first needed. Each runs one job at a time; other jobs wait, and
    their owners take turns."""

    def __init__(
        self,
        module: str,
        result_type: type[ResultT],
        *,
        work: str,
        workers: int,
        cpu_seconds: float,
        wall_seconds: float,
        line_limit: int = LINE_LIMIT,
    ) -> None:
        """`module`: runs `process.serve` as the main module of a worker. `work`: what the workers
        do, for errors. `line_limit`: maximum size of a result, in bytes."""
        self._module = module
        self._result_type = result_type
        self._work = work
        self._line_limit = line_limit
        self._slots = FairSlots(workers)
        self._idle: list[asyncio.subprocess.Process] = []
        self._cpu_seconds = cpu_seconds
        self._wall_seconds = wall_seconds

    @property
    def cpu_seconds(self) -> float:
        return self._cpu_seconds

    async def run(self, job: LimitedJob, owner: str = "") -> ResultT:
        """Run a job. `owner`: the key whose job it is. Raise LimitExceeded; ChecksBusy if all
        workers were busy for as long as one job may take; ChecksFailed if they did not start, or
        something other than the job ended them, which is no verdict on the job."""
        async with self._slot(owner):
            crashes = 0
            for _ in range(MAX_ATTEMPTS):
                try:
                    return await self._run_once(job)
                except _Ended as ended:
                    crashes += ended.crashed
            if crashes == MAX_ATTEMPTS:
                raise LimitExceeded
            raise ChecksFailed(
                f"The processes of this gateway that {self._work} did not start, or were killed. "
                "Send the request again. If this persists, the gateway may need more memory, or "
                "lack a package.",
                retry_after=RETRY_SECONDS,
            )

    async def _run_once(self, job: LimitedJob) -> ResultT:
        self._idle = [worker for worker in self._idle if worker.returncode is None]
        worker = self._idle.pop() if self._idle else await self._start()
        try:
            async with asyncio.timeout(self._wall_seconds):
                result = await self._exchange(worker, job)
        except BaseException as error:
            await _kill(worker)
            if isinstance(error, TimeoutError):
                raise LimitExceeded from error
            raise
        self._idle.append(worker)
        return result

    async def _start(self) -> asyncio.subprocess.Process:
        """Return a worker that has loaded its modules: the time of a job does not include that."""
        try:
            worker = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                self._module,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=self._line_limit,
            )
        except OSError as error:  # no processes, descriptors or memory left
            raise _Ended(crashed=False) from error
        assert worker.stdout is not None
        try:
            async with asyncio.timeout(START_SECONDS):
                ready = await worker.stdout.readline()
        except BaseException as error:
            await _kill(worker)
            if isinstance(error, TimeoutError):
                raise _Ended(crashed=False) from error
            raise
        if ready != READY:
            await _kill(worker)
            raise _Ended(crashed=False)
        return worker

    async def _exchange(self, worker: asyncio.subprocess.Process, job: LimitedJob) -> ResultT:
        assert worker.stdin is not None
        assert worker.stdout is not None
        # pydantic's serializer fails on lone surrogates, which the services keep out of jobs.
        try:
            worker.stdin.write(job.model_dump_json().encode() + b"\n")
            await worker.stdin.drain()
            line = await worker.stdout.readline()
            return self._result_type.model_validate_json(line)
        except (ValidationError, OSError) as error:  # the line is empty if the worker died
            raise await _end_of(worker) from error
        except ValueError as error:  # the line is longer than the limit
            raise LimitExceeded from error

    @asynccontextmanager
    async def _slot(self, owner: str) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self._slots.slot(owner, self._wall_seconds))
            except TimeoutError as error:
                raise ChecksBusy(
                    f"All processes that {self._work} are busy with other requests, or those that "
                    "one key may have are busy with others of this key. Send the request again.",
                    retry_after=RETRY_SECONDS,
                ) from error
            yield


async def _end_of(worker: asyncio.subprocess.Process) -> LimitExceeded | _Ended:
    """Return how a worker ended that gave no result."""
    try:
        async with asyncio.timeout(EXIT_SECONDS):
            status = await worker.wait()
    except TimeoutError:
        return _Ended(crashed=False)
    if status in (-signal.SIGPROF, OUT_OF_MEMORY):
        return LimitExceeded()
    return _Ended(crashed=-status in CRASHES)


async def _kill(worker: asyncio.subprocess.Process) -> None:
    if worker.returncode is None:
        worker.kill()
        await worker.wait()
