"""Schemas that were never seen are compiled here first: elsewhere, and under limits.

What goes over a limit becomes a refusal that names it; the process that did is replaced by a fork
that is warm already, so that the next schema does not notice.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from toolgate_core import grammar_key
from toolgate_core.errors import SchemaTooComplex
from toolgate_core.wire import GrammarSource, GrammarVerdict

from ...errors import QuarantineDown
from .. import metrics
from .fork_server import ForkServer, Worker, WorkerEnded
from .protocol import Answer, Job, Limits

ATTEMPTS = 2
"""Of one schema, where the quarantine itself died under it."""

_BY_SIGNAL = {
    signal.SIGPROF: "cpu",
    signal.SIGALRM: "wall",
    signal.SIGKILL: "memory",  # the kernel's, out of memory: nobody else kills a worker
    signal.SIGABRT: "memory",  # what an allocation that fails in Rust or C++ comes to
}


@dataclass
class _Waiting:
    job: Job
    answer: asyncio.Future[GrammarVerdict] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class Quarantine:
    """`examine` from any task of one event loop; `workers` schemas are compiled at a time."""

    def __init__(
        self, start: Callable[[], Awaitable[ForkServer]], limits: Limits, *, workers: int
    ) -> None:
        self._start = start
        self._limits = limits
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue()
        self._slots = workers
        self._tasks: list[asyncio.Task[None]] = []
        self._starting: asyncio.Task[ForkServer] | None = None

    def start(self) -> None:
        """Begin to warm up; whoever examines meanwhile waits."""
        if not self._tasks:
            self._starting = asyncio.create_task(self._start_zygote())
            self._tasks = [asyncio.create_task(self._serve()) for _ in range(self._slots)]

    async def warmed(self) -> None:
        """Wait until it can serve. Raises QuarantineDown."""
        self.start()
        await self._zygote()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if self._starting is not None:
            self._starting.cancel()
            with suppress(asyncio.CancelledError, QuarantineDown):
                (await self._starting).kill()
            self._starting = None

    async def examine(self, source: GrammarSource) -> GrammarVerdict:
        """The verdict, with `compile_ms`, and with `load_ms` and `blob` where they were measured.
        Raises QuarantineDown, which says nothing about the schema."""
        self.start()
        waiting = _Waiting(
            Job(
                key=source.key,
                name=source.name,
                parameters=grammar_key.canonical_json(source.parameters),
                limits=self._limits,
            )
        )
        self._queue.put_nowait(waiting)
        return await waiting.answer

    async def _serve(self) -> None:
        """One slot: job after job on one worker, a new worker when that one is spent."""
        worker: Worker | None = None
        try:
            while True:
                if worker is None:  # ahead of time: a fork takes longer than most compiles
                    with suppress(QuarantineDown, OSError):
                        worker = await (await self._zygote()).fork()
                waiting = await self._queue.get()
                if waiting.answer.cancelled():
                    continue
                try:
                    verdict, worker = await self._examine(waiting.job, worker)
                except Exception as error:  # noqa: BLE001 - whoever asked must hear of it, and the slot lives on
                    worker = None
                    _settle(waiting.answer, error)
                else:
                    _settle(waiting.answer, verdict)
        finally:
            if worker is not None:
                worker.close()

    async def _examine(
        self, job: Job, worker: Worker | None
    ) -> tuple[GrammarVerdict, Worker | None]:
        """The verdict, and the worker if it can take another job."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                zygote = await self._zygote()
                worker = worker or await zygote.fork()
                answer = await worker.examine(job)
            except WorkerEnded as ended:
                assert worker is not None
                worker.close()
                return self._refusal(job, _limit(ended.signal)), None
            except (QuarantineDown, OSError) as error:  # an OSError: out of files or processes
                if worker is not None:
                    worker.zygote.kill()  # stuck, or dead for long: the next attempt has a new one
                    worker.close()
                worker = None
                if attempt == ATTEMPTS:
                    raise QuarantineDown(str(error)) from error
                continue
            return self._settled(job, answer, worker)
        raise AssertionError  # unreachable: the last attempt returns or raises

    def _settled(
        self, job: Job, answer: Answer, worker: Worker
    ) -> tuple[GrammarVerdict, Worker | None]:
        if answer.renew:
            worker.close()
        kept = None if answer.renew else worker
        if answer.verdict is None:
            return self._refusal(job, "memory"), kept
        metrics.compiled(answer.verdict, place="quarantine")
        return answer.verdict, kept

    def _refusal(self, job: Job, limit: str) -> GrammarVerdict:
        metrics.QUARANTINE_KILLS.labels(limit).inc()
        allowed = {
            "cpu": f"more than {self._limits.cpu_seconds:g} s of processor time",
            "wall": f"longer than {self._limits.wall_seconds:g} s",
            "memory": f"more than {self._limits.memory_bytes // 2**20:,} MB of memory",
        }
        reason = (
            f"compiling it takes {allowed[limit]}" if limit in allowed else "its compile crashes"
        )
        return GrammarVerdict(
            key=job.key,
            status="refused",
            reason=f"{reason}; split the tool or simplify its schema",
            pointer="",
            code=SchemaTooComplex.code,
        )

    async def _zygote(self) -> ForkServer:
        """The living one; of many who find it dead, one starts the next."""
        while True:
            starting = self._starting
            if starting is None or (starting.done() and not _alive(starting)):
                self._starting = starting = asyncio.create_task(self._start_zygote())
            zygote = await asyncio.shield(starting)
            if zygote.alive:
                return zygote

    async def _start_zygote(self) -> ForkServer:
        return await self._start()


def _limit(ended_by: signal.Signals | None) -> str:
    return _BY_SIGNAL.get(ended_by, "crash") if ended_by is not None else "crash"


def _alive(starting: asyncio.Task[ForkServer]) -> bool:
    failed = starting.cancelled() or starting.exception() is not None
    return not failed and starting.result().alive


def _settle(answer: asyncio.Future[GrammarVerdict], outcome: GrammarVerdict | Exception) -> None:
    if answer.done():  # who asked has gone
        return
    if isinstance(outcome, Exception):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)
