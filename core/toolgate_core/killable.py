"""Jobs in processes that are killed when they exceed their limits.

A `WorkerPool` has a template process, which imports the code of its jobs and then forks workers.
A worker is ready within milliseconds, runs one job at a time, and can be killed without loss. The
template has one thread, and neither a GPU nor the sockets of its host, which therefore never forks.

A worker that exceeds a limit on time is ended by a timer of the kernel, even inside native code.
Its end is a result only if the job caused it: the job exceeded a limit, or crashed two workers. If
something else ended it (the kernel, short of memory; an operator), the job is repeated.

The template and its workers end with their host: the template when its control socket closes, the
workers when the template ends. Messages are JSON. No data is unpickled.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import importlib
import math
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from .error_body import RETRY_SECONDS
from .errors import ChecksBusy, ChecksFailed
from .host_probe import interpreter_variables


class FairSlots:
    """At most `count` slots are taken. One owner has all but one of them at most, so that another
    never waits for the jobs of one owner alone. Owners that wait take turns."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._most = max(1, count - 1)
        self._taken = Counter[str]()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """By owner, the one whose turn is next first."""

    @asynccontextmanager
    async def slot(self, owner: str, seconds: float | None = None) -> AsyncIterator[None]:
        """Wait for a slot, `seconds` at most. Raise TimeoutError."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        self._assign()
        try:
            async with asyncio.timeout(seconds):
                await turn
            yield
        finally:
            if turn.done() and not turn.cancelled():
                self._release(owner)
            else:
                self._leave(owner, turn)

    def _assign(self) -> None:
        """Give free slots to the owners whose turn it is."""
        while self._free:
            may = (each for each in self._waiting if self._taken[each] < self._most)
            if (owner := next(may, None)) is None:
                return
            turn = self._waiting[owner].popleft()
            self._waiting.move_to_end(owner)
            self._forget(owner)
            if turn.done():  # its task was cancelled
                continue
            self._free -= 1
            self._taken[owner] += 1
            turn.set_result(None)

    def _release(self, owner: str) -> None:
        self._free += 1
        self._taken[owner] -= 1
        if not self._taken[owner]:
            del self._taken[owner]
        self._assign()

    def _leave(self, owner: str, turn: asyncio.Future[None]) -> None:
        if turn in self._waiting.get(owner, ()):
            self._waiting[owner].remove(turn)
            self._forget(owner)

    def _forget(self, owner: str) -> None:
        if not self._waiting[owner]:
            del self._waiting[owner]


MAX_ATTEMPTS = 2
"""Attempts for one job if its worker dies."""
START_SECONDS = 300.0
"""Time-out for the start of a worker. It takes milliseconds, and that of a template up to seconds,
but minutes without compiled bytecode next to an engine that uses every core."""
GRACE_SECONDS = 5.0
"""Added to a job's limit on wall-clock time. After that, its worker is stuck."""
MAX_RESULT_BYTES = 64 * 2**20
STACK_BYTES = 8 * 2**20
OUT_OF_MEMORY = 3
"""Exit status of a worker. Python itself uses 1 and 2."""
PR_SET_PDEATHSIG = 1

Limit = Literal["cpu", "wall", "memory", "crash"]
_ENDS: Mapping[int, Limit] = {
    -OUT_OF_MEMORY: "memory",
    signal.SIGPROF: "cpu",
    signal.SIGALRM: "wall",
    signal.SIGABRT: "memory",  # the result of a failed allocation in Rust or C++
    signal.SIGSEGV: "crash",  # the result of a stack overflow
    signal.SIGBUS: "crash",
    signal.SIGILL: "crash",
    signal.SIGFPE: "crash",
}
"""By the signal of a worker's end: what the job exceeded, if nothing but the job caused it."""
_CERTAIN = (-OUT_OF_MEMORY, signal.SIGPROF, signal.SIGALRM)
"""The ends that need no second attempt."""
_JOB = struct.Struct("!ddQI")
"""Limits, and the length of the job that follows."""
_REPLY = struct.Struct("!cI")
"""What it is, and the length of the result that follows; for READY the process ID, for ENDED the
wait status."""
READY, RESULT, DONE, LEAVING, ENDED = b"r", b"+", b".", b"x", b"e"

ResultT = TypeVar("ResultT", bound=BaseModel)


class JobLimits(NamedTuple):
    """The limits of one job."""

    cpu_seconds: float
    wall_seconds: float
    memory_bytes: int = 2**30
    """In addition to what an idle worker uses."""


class Work(NamedTuple):
    """What a template returns for its workers."""

    job: type[BaseModel]
    run: Callable[[Any], Iterable[BaseModel]]
    """Runs a job. The last result counts. Each has the limits for itself: if a job exceeds them
    after its first result, that one counts."""
    warm_up: Callable[[], object] = tuple
    """Called by each worker when it starts."""


class LimitExceeded(Exception):
    """The job exceeded a limit, or crashed two workers."""

    def __init__(self, limit: Limit) -> None:
        super().__init__(limit)
        self.limit = limit


class _Ended(Exception):
    """A worker ended without a result."""

    def __init__(
        self, reason: str, limit: Limit | None = None, *, certain: bool = False, all_: bool = False
    ) -> None:
        """`limit`: what the job exceeded, if it was the cause. `certain`: a second attempt would
        end in the same way. `all_`: the template and all its workers ended."""
        super().__init__(reason)
        self.limit = limit
        self.certain = certain
        self.all = all_


class _Worker:
    """The pool's side of a worker."""

    def __init__(self, control: socket.socket) -> None:
        """Raise OSError if the template died, or no descriptors are left."""
        self._connection, theirs = socket.socketpair()
        self._connection.setblocking(False)
        self._pid = 0
        self.control = control
        with theirs:
            socket.send_fds(control, [b"f"], [theirs.fileno()])

    async def ready(self) -> None:
        """Raise _Ended."""
        if self._pid:
            return
        try:
            async with asyncio.timeout(START_SECONDS):
                _, self._pid, _ = await self._read()
        except TimeoutError as error:
            raise _Ended("did not start in time", all_=True) from error

    async def send(self, job: bytes, limits: JobLimits) -> None:
        with contextlib.suppress(OSError):  # it died, which the next reply says
            frame = _JOB.pack(*limits, len(job)) + job
            await asyncio.get_running_loop().sock_sendall(self._connection, frame)

    async def reply(self) -> tuple[bytes, bytes]:
        """Return what it is, and the result. Raise _Ended."""
        kind, number, body = await self._read()
        if kind != ENDED:
            return kind, body
        self._pid = 0
        code = os.waitstatus_to_exitcode(number)
        how = f"were killed by signal {-code}" if code < 0 else f"ended with status {code}"
        raise _Ended(how, _ENDS.get(-code), certain=-code in _CERTAIN)

    def kill(self) -> None:
        self._connection.close()
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    async def _read(self) -> tuple[bytes, int, bytes]:
        kind, number = _REPLY.unpack(await self._exactly(_REPLY.size))
        if kind == RESULT and number > MAX_RESULT_BYTES:
            raise _Ended("returned too much", "memory", certain=True)
        return kind, number, await self._exactly(number) if kind == RESULT else b""

    async def _exactly(self, size: int) -> bytes:
        data, loop = bytearray(size), asyncio.get_running_loop()
        view = memoryview(data)
        while view:
            count = 0
            with contextlib.suppress(OSError):
                count = await loop.sock_recv_into(self._connection, view)
            if not count:
                raise _Ended("did not start, or ended with their template", all_=True)
            view = view[count:]
        return bytes(data)


class WorkerPool(Generic[ResultT]):
    """The template starts when it is first needed. Jobs wait for a worker, and their owners take
    turns; one owner has all workers but one at most."""

    def __init__(
        self,
        target: str,
        result_type: type[ResultT],
        limits: JobLimits,
        *,
        task: str,
        workers: int,
        wait_seconds: float | None = None,
        setup: Callable[[], bytes] = bytes,
        environment: Mapping[str, str] = {},
        niceness: int = 0,
        renew_seconds: float = math.inf,
    ) -> None:
        """`target`: `module:function`, which the template calls with the result of `setup`, and
        which returns the Work. `task`: what the workers do, for errors. `wait_seconds`: limit on
        the wait for a worker. `environment`: variables of the template. `renew_seconds`: a worker
        is replaced after a job that took more processor time, which returns its memory."""
        self.limits = limits
        self._arguments = [target, str(niceness), str(renew_seconds)]
        self._result_type = result_type
        self._task = task
        self._workers = workers
        self._wait_seconds = wait_seconds
        self._setup = setup
        self._environment = environment
        self._slots = FairSlots(workers)
        self._idle: list[_Worker] = []
        self._starting = asyncio.Lock()
        self._template: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    async def run(
        self, job: BaseModel, owner: str = "", limits: JobLimits | None = None
    ) -> ResultT:
        """Run a job. `owner`: whose job it is. Raise LimitExceeded; ChecksBusy if no worker was
        free in time; ChecksFailed if the workers did not start, or something other than the job
        ended them, which is no verdict on the job."""
        # pydantic's serializer fails on lone surrogates, which the callers keep out of jobs.
        body = job.model_dump_json().encode()
        ends: list[_Ended] = []
        try:
            async with self._slots.slot(owner, self._wait_seconds):
                while len(ends) < MAX_ATTEMPTS and not (ends and ends[-1].certain):
                    try:
                        return await self._attempt(body, limits or self.limits)
                    except _Ended as ended:
                        ends.append(ended)
        except TimeoutError as error:
            raise ChecksBusy(
                f"All processes that {self._task} are busy with other requests, or those that one "
                "key may have are busy with others of this key. Send the request again.",
                retry_after=RETRY_SECONDS,
            ) from error
        last = ends[-1]
        # One crash may be chance, for example of a machine that is out of memory.
        if last.limit and (last.certain or all(each.limit for each in ends)):
            raise LimitExceeded(last.limit)
        raise self._failed(last) from last

    async def warm_up(self) -> None:
        """Start the template and all workers before the first job. Raise ChecksFailed."""
        try:
            self._idle += [await self._fork() for _ in range(self._workers)]
            await self._idle[-1].ready()
        except _Ended as ended:
            raise self._failed(ended) from ended

    def close(self) -> None:
        """End the template and its workers. Jobs that run are repeated by a new one."""
        for worker in self._idle:
            worker.kill()
        self._idle.clear()
        if self._control is not None:
            self._control.close()
        if self._template is not None:
            self._template.kill()
            self._template.wait()

    async def _attempt(self, job: bytes, limits: JobLimits) -> ResultT:
        worker = self._idle.pop() if self._idle else await self._fork()
        result: ResultT | None = None
        kind = LEAVING
        try:
            await worker.ready()
            while True:
                async with asyncio.timeout(limits.wall_seconds + GRACE_SECONDS):
                    if result is None:
                        await worker.send(job, limits)
                    kind, body = await worker.reply()
                if kind != RESULT:
                    break
                result = self._result_type.model_validate_json(body)
        except _Ended as ended:
            if ended.all and worker.control is self._control:  # there is no new template yet
                self.close()
            if result is None or ended.limit is None:
                raise
        except (TimeoutError, ValidationError) as error:
            raise _Ended("did not respond") from error
        finally:
            if kind == DONE:
                self._idle.append(worker)
            else:
                worker.kill()
                self._replace()
        if result is None:
            raise _Ended("returned nothing")
        return result

    def _replace(self) -> None:
        """Fork a worker before the next job arrives: its start takes longer than most jobs."""
        with contextlib.suppress(OSError):
            if self._alive() and self._control is not None:
                self._idle.insert(0, _Worker(self._control))  # others are used before it

    async def _fork(self) -> _Worker:
        try:
            async with self._starting:
                if not self._alive():
                    self.close()
                    self._template, self._control = await asyncio.to_thread(self._started)
            assert self._control is not None
            return _Worker(self._control)
        except OSError as error:  # no processes, descriptors or memory left, or the template died
            raise _Ended(f"could not be started ({error.strerror})") from error

    def _alive(self) -> bool:
        return self._template is not None and self._template.poll() is None

    def _started(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        """Start a template. If nobody takes it, its socket is closed, so it ends. Raise OSError."""
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, tempfile.TemporaryFile() as setup:
            setup.write(self._setup())
            setup.seek(0)
            template = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno()), *self._arguments],
                stdin=setup,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**interpreter_variables(), **self._environment},
                # A process group of its own, so that Ctrl-C does not end it; it ends with its
                # socket. It stays in the session, because Linux balances sessions against each
                # other, and niceness only counts within one (sched(7)).
                process_group=0,
            )
        return template, control

    def _failed(self, failure: _Ended) -> ChecksFailed:
        return ChecksFailed(
            f"The processes that {self._task} failed: they {failure}. Send the request again. If "
            "this persists, the machine may need more memory, or lack a package.",
            retry_after=RETRY_SECONDS,
        )


def serve(control_fd: str, target: str, niceness: str, renew_seconds: str) -> None:
    """Fork workers until the control socket closes. Each message has the socket of a worker as
    ancillary data. The wait status of a worker that ended is sent over its socket."""
    gc.disable()  # imports take a quarter less time
    module, _, function = target.partition(":")
    work: Work = getattr(importlib.import_module(module), function)(sys.stdin.buffer.read())
    os.nice(int(niceness))
    gc.collect()
    gc.freeze()  # the memory in use now stays shared with the forks, as no collection writes to it
    gc.enable()
    workers: dict[int, socket.socket] = {}

    def report_ended(*_: object) -> None:
        with contextlib.suppress(ChildProcessError):  # no worker is left
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                with workers.pop(ended[0]) as connection, contextlib.suppress(OSError):
                    connection.send(_REPLY.pack(ENDED, ended[1]), socket.MSG_DONTWAIT)

    signal.signal(signal.SIGCHLD, report_ended)
    with socket.socket(fileno=int(control_fd)) as control:
        while fds := socket.recv_fds(control, 1, 1)[1]:
            connection = socket.socket(fileno=fds[0])
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})  # until it is in `workers`
            if not (pid := os.fork()):
                for other in (control, *workers.values()):
                    other.close()
                _become_worker(work, connection, float(renew_seconds))
            workers[pid] = connection
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


def _become_worker(work: Work, connection: socket.socket, renew_seconds: float) -> None:
    """Run jobs until the socket closes. Never returns."""
    try:
        for number in (signal.SIGCHLD, signal.SIGPROF, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # masks are inherited through exec
        parent = os.getppid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the template died before prctl
            os._exit(1)
        os.dup2(1, 2)  # /dev/null: native code may write parts of a job
        _set_limit(resource.RLIMIT_CORE, 0)
        _set_limit(resource.RLIMIT_STACK, STACK_BYTES)
        with contextlib.suppress(OSError):  # no procfs
            Path("/proc/self/oom_score_adj").write_text("1000")
        work.warm_up()
        connection.sendall(_REPLY.pack(READY, os.getpid()))
        while header := connection.recv(_JOB.size, socket.MSG_WAITALL):
            cpu_seconds, wall_seconds, memory_bytes, length = _JOB.unpack(header)
            limits = JobLimits(cpu_seconds, wall_seconds, memory_bytes)
            started = time.process_time()
            results = _results(work, connection, length)
            while (result := _limited(results, limits)) is not None:
                connection.sendall(_REPLY.pack(RESULT, len(result)) + result)
            if time.process_time() - started > renew_seconds:
                connection.sendall(_REPLY.pack(LEAVING, 0))
                break
            connection.sendall(_REPLY.pack(DONE, 0))
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    except BaseException:  # noqa: BLE001 - a fork must not continue in its parent's loop
        os._exit(1)
    os._exit(0)  # without clean-up of the template's resources


def _results(work: Work, connection: socket.socket, length: int) -> Iterator[bytes]:
    job = work.job.model_validate_json(connection.recv(length, socket.MSG_WAITALL))
    for result in work.run(job):
        yield result.model_dump_json().encode()


def _limited(results: Iterator[bytes], limits: JobLimits) -> bytes | None:
    """Return the next result, within limits. At a limit on time, the signal's default action ends
    the process. Allocations beyond the limit on memory fail."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    _set_limit(resource.RLIMIT_AS, pages * resource.getpagesize() + limits.memory_bytes)
    # A timer, because RLIMIT_CPU counts whole seconds since the start of the process.
    signal.setitimer(signal.ITIMER_PROF, limits.cpu_seconds)
    signal.setitimer(signal.ITIMER_REAL, limits.wall_seconds)
    result = next(results, None)
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return result


def _set_limit(name: int, wanted: int) -> None:
    """Set a soft limit to `wanted`, or to the hard limit if that is lower. The hard limit stays:
    only privileged processes may raise it."""
    _, hard = resource.getrlimit(name)
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(name, (soft, hard))


if __name__ == "__main__":
    serve(*sys.argv[1:])
