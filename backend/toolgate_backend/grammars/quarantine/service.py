"""Compilation of new schemas in quarantine: in a separate process, with resource limits.

A schema that exceeds a limit is refused, and the refusal names the limit. The worker that exceeded
it is replaced by a fork that is ready immediately, so the next schema is not delayed.

A process that was killed by anything else is no verdict on the schema. The schema is then compiled
again, and after MAX_ATTEMPTS the examination fails.

The clients of the gateways share the workers: one that sends many expensive schemas delays its own
tools only.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from toolgate_core.errors import SchemaTooComplex
from toolgate_core.fair_slots import FairSlots
from toolgate_core.schema.canonical import canonical_json
from toolgate_core.wire import GrammarSource, GrammarVerdict, InstanceWalk

from ...cores import usable_cores
from ...errors import QuarantineUnavailable
from .. import metrics
from .fork_server import ForkServer, Worker, WorkerEnded, WorkerKilled
from .protocol import CompileJob, CompileLimits

logger = logging.getLogger(__name__)

MIN_WORKERS, MAX_WORKERS = 2, 8
MAX_ATTEMPTS = 2
"""Attempts for one schema if processes of the quarantine are killed or crash."""

Result = TypeVar("Result")
_TIME_LIMITS = {signal.SIGPROF: "cpu", signal.SIGALRM: "wall"}


def default_workers() -> int:
    """Return a quarter of the cores: the engine and its GPU need the others."""
    return max(MIN_WORKERS, min(MAX_WORKERS, usable_cores() // 4))


@dataclass(frozen=True)
class Examined:
    verdict: GrammarVerdict
    walks: tuple[InstanceWalk, ...] = ()
    """One for each instance of the job."""


class Quarantine:
    """`examine` may be called from any task of one event loop. `workers` schemas of one owner are
    compiled at the same time. One more worker is for the other owners."""

    def __init__(
        self,
        start: Callable[[], Awaitable[ForkServer]],
        limits: CompileLimits,
        *,
        workers: int | None = None,
    ) -> None:
        self._start = start
        self._limits = limits
        self._workers = (workers or default_workers()) + 1
        self._slots = FairSlots(self._workers)
        self._idle: list[Worker] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._starting: asyncio.Task[ForkServer] | None = None

    def start(self) -> None:
        """Start the process. Callers of `examine` wait until it is ready."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._start_fork_server())
            for _ in range(self._workers):
                self._begin(self._fork_spare())

    async def warm_up(self) -> None:
        """Start the process before the server is ready. Its imports would take minutes next to a
        busy engine, and the first new tool would have to wait for them. A failure is logged."""
        self.start()
        try:
            await self._fork_server()
        except QuarantineUnavailable:
            logger.exception(
                "Toolgate: the quarantine process did not start. Requests with new tool schemas "
                "will get 503."
            )

    async def end_workers(self) -> None:
        """End all examinations and workers, but not the process."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        while self._idle:
            self._idle.pop().close()

    async def close(self) -> None:
        await self.end_workers()
        if self._starting is not None:
            self._starting.cancel()
            with suppress(asyncio.CancelledError, QuarantineUnavailable):
                (await self._starting).kill()
            self._starting = None

    async def examine(self, source: GrammarSource) -> GrammarVerdict:
        """Return the verdict, with `compile_ms`, and with `load_ms` and `blob` if they were
        measured. Raise QuarantineUnavailable, which is not a verdict on the schema."""
        return (await self._run(source, None)).verdict

    async def walk(self, source: GrammarSource, instances: Sequence[Any]) -> Examined:
        """Return the verdict, and the walks of JSON values through the masks. Compiling and walking
        together have the limits of one schema. Raise QuarantineUnavailable."""
        return await self._run(source, tuple(instances))

    async def _run(self, source: GrammarSource, instances: tuple[Any, ...] | None) -> Examined:
        self.start()
        job = CompileJob(
            key=source.key,
            name=source.name,
            parameters=canonical_json(source.parameters),
            limits=self._limits,
            instances=instances,
        )
        # In a task of its own: when the caller leaves, a worker that has begun goes on up to its
        # limits, and the slot of the owner is taken for as long.
        begun = asyncio.Event()
        examining = self._begin(self._in_turn(job, source.owner, begun))
        try:
            return await asyncio.shield(examining)
        except asyncio.CancelledError:
            if not begun.is_set():
                examining.cancel()
            raise

    def _begin(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Begin a task that `end_workers` cancels. Perhaps nobody waits for its result."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def _in_turn(self, job: CompileJob, owner: str, begun: asyncio.Event) -> Examined:
        async with self._slots.slot(owner):
            begun.set()
            return await self._examine(job)

    async def _examine(self, job: CompileJob) -> Examined:
        crashes: list[signal.Signals] = []
        failure: Exception | None = None
        for _ in range(MAX_ATTEMPTS):
            worker: Worker | None = None
            try:
                worker = await self._take_worker()
                reply = await worker.examine(job)
            except WorkerEnded as ended:
                self._replace(worker)
                if ended.signal in _TIME_LIMITS:
                    return self._refusal(job, _TIME_LIMITS[ended.signal])
                crashes.append(ended.signal)
                failure = ended
            except WorkerKilled as killed:
                self._replace(worker)
                failure = killed
            except (QuarantineUnavailable, OSError) as error:  # OSError: no descriptors left
                if worker is not None:
                    worker.fork_server.kill()  # stuck or dead: the next attempt starts a new one
                self._replace(worker)
                failure = error
            except BaseException:
                if worker is not None:
                    worker.close()
                raise
            else:
                if reply.replace_worker:
                    self._replace(worker)
                else:
                    self._idle.append(worker)
                if reply.verdict is None:
                    return self._refusal(job, "memory")
                metrics.compiled(reply.verdict, place="quarantine")
                return Examined(reply.verdict, reply.walks)
        # One crash may be chance, for example of a machine that is out of memory.
        if len(crashes) == MAX_ATTEMPTS:
            # SIGABRT: the result of a failed allocation in Rust or C++.
            return self._refusal(job, "memory" if crashes[-1] == signal.SIGABRT else "crash")
        logger.error("Toolgate: a tool schema could not be compiled: %s", failure)
        raise QuarantineUnavailable(str(failure)) from failure

    async def _take_worker(self) -> Worker:
        """Return an idle worker, or a new one. Raise QuarantineUnavailable or OSError."""
        fork_server = await self._fork_server()
        while self._idle:
            worker = self._idle.pop(0)
            if worker.fork_server is fork_server:
                return worker
            worker.close()  # it ended with what forked it, while it was idle
        return await fork_server.fork()

    def _replace(self, worker: Worker | None) -> None:
        """Close a worker that accepts no more jobs. Its replacement is forked before the next job
        arrives: a fork takes longer than most compiles."""
        if worker is not None:
            worker.close()
            self._begin(self._fork_spare())

    async def _fork_spare(self) -> None:
        with suppress(QuarantineUnavailable, OSError):
            worker = await (await self._fork_server()).fork()
            if len(self._idle) < self._workers:
                self._idle.append(worker)
            else:
                worker.close()

    def _refusal(self, job: CompileJob, limit: str) -> Examined:
        metrics.QUARANTINE_KILLS.labels(limit).inc()
        allowed = {
            "cpu": f"more than {self._limits.cpu_seconds:g} s of processor time",
            "wall": f"longer than {self._limits.wall_seconds:g} s",
            "memory": f"more than {self._limits.memory_bytes // 2**20:,} MB of memory",
        }
        reason = (
            f"compiling it takes {allowed[limit]}"
            if limit in allowed
            else "compiling it crashes the grammar engine"
        )
        verdict = GrammarVerdict(
            key=job.key,
            status="refused",
            reason=f"{reason}. Split the tool or simplify its schema",
            pointer="",
            code=SchemaTooComplex.code,
        )
        return Examined(verdict)

    async def _fork_server(self) -> ForkServer:
        """Return the running process. If several callers find it dead, one of them starts a new
        one."""
        while True:
            starting = self._starting
            if starting is None or (starting.done() and not _alive(starting)):
                self._starting = starting = asyncio.create_task(self._start_fork_server())
            fork_server = await asyncio.shield(starting)
            if fork_server.alive:
                return fork_server

    async def _start_fork_server(self) -> ForkServer:
        return await self._start()


def _alive(starting: asyncio.Task[ForkServer]) -> bool:
    failed = starting.cancelled() or starting.exception() is not None
    return not failed and starting.result().alive
