"""The backend's side of the quarantine process (child.py): start it, and fork workers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import asdict
from typing import TypeVar

from pydantic import BaseModel

from ...errors import QuarantineUnavailable
from ...tokens.vocabulary import Vocabulary
from .protocol import MAX_FRAME_BYTES, CompileJob, CompilerSetup, WorkerReply, encode_frame

START_SECONDS = 300.0
"""Time-out for importing torch and reading a vocabulary. This takes seconds, but minutes without
compiled bytecode next to an engine that uses every core."""
STATUS_SECONDS = 5.0
"""Time-out between a worker's end and the report of its exit status."""
GRACE_SECONDS = 5.0
"""Added to a job's wall-time limit, which the kernel enforces. After that, the process is stuck."""

ENVIRONMENT = {
    "TOKENIZERS_PARALLELISM": "false",  # no threads, because a fork does not copy them
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
}

Kind = TypeVar("Kind", bound=BaseModel)


JOB_SIGNALS = frozenset(
    {
        signal.SIGPROF,  # the limit of processor time
        signal.SIGALRM,  # the limit of wall-clock time
        signal.SIGABRT,  # the result of a failed allocation in Rust or C++
        signal.SIGSEGV,  # the result of a stack overflow
        signal.SIGBUS,
        signal.SIGILL,
        signal.SIGFPE,
    }
)
"""The signals by which a job can end its worker. Everything else comes from outside: SIGKILL from
the kernel if the machine is out of memory, SIGTERM from an operator."""


class WorkerEnded(Exception):
    """A job ended its worker without a reply. `signal` is one of JOB_SIGNALS."""

    def __init__(self, ended_by: signal.Signals) -> None:
        super().__init__(ended_by)
        self.signal = ended_by


class WorkerKilled(QuarantineUnavailable):
    """Something other than the job ended a worker. The quarantine process may be intact."""


class Worker:
    """One forked process, which examines one schema at a time."""

    def __init__(
        self,
        fork_server: ForkServer,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        status: asyncio.Future[int],
    ) -> None:
        self.fork_server = fork_server
        self._reader = reader
        self._writer = writer
        self._status = status

    async def examine(self, job: CompileJob) -> WorkerReply:
        """Raise WorkerEnded, WorkerKilled, or QuarantineUnavailable if there is no reply in
        time."""
        timeout_seconds = job.limits.wall_seconds + GRACE_SECONDS
        try:
            self._writer.write(encode_frame(job))
            async with asyncio.timeout(timeout_seconds):
                reply = await self._read(WorkerReply)
        except TimeoutError as error:
            raise QuarantineUnavailable("the quarantine worker did not reply in time") from error
        except (OSError, EOFError) as error:
            raise await self._end() from error
        if not reply.measurements_follow:
            return reply
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._read(WorkerReply)
        except TimeoutError:
            pass
        except (OSError, EOFError):
            end = await self._end()
            if isinstance(end, WorkerKilled):  # the next attempt measures the grammar
                raise end from None
        return reply.model_copy(update={"replace_worker": True})

    def close(self) -> None:
        """Close the connection, which ends the worker."""
        self._writer.close()

    async def _read(self, kind: type[Kind]) -> Kind:
        length = int.from_bytes(await self._reader.readexactly(4), "big")
        if length > MAX_FRAME_BYTES:
            raise EOFError
        return kind.model_validate_json(await self._reader.readexactly(length))

    async def _end(self) -> WorkerEnded | WorkerKilled:
        """Return how the worker ended. Raise QuarantineUnavailable if that is not reported."""
        try:
            async with asyncio.timeout(STATUS_SECONDS):
                status = await asyncio.shield(self._status)
        except TimeoutError as error:
            raise QuarantineUnavailable(
                "the quarantine did not report how its worker ended"
            ) from error
        if not os.WIFSIGNALED(status):
            return WorkerKilled(
                f"the quarantine worker ended with status {os.waitstatus_to_exitcode(status)}"
            )
        number = os.WTERMSIG(status)
        if number in JOB_SIGNALS:
            return WorkerEnded(signal.Signals(number))
        return WorkerKilled(f"the quarantine worker was killed by signal {number}")


class ForkServer:
    """A running quarantine process. A dead one is not restarted; start a new one instead."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self._process = process
        self._control = control
        self._numbers = itertools.count(1)
        self._statuses: dict[int, asyncio.Future[int]] = {}
        self._ready = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(control.fileno(), self._on_control_message)

    @classmethod
    async def start(cls, vocabulary: Vocabulary) -> ForkServer:
        """Raise QuarantineUnavailable if the process does not start."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with theirs:
            process = _spawn(theirs.fileno())
        fork_server = cls(process, ours)
        try:
            async with asyncio.timeout(START_SECONDS):
                await asyncio.to_thread(_send_setup, process, vocabulary)
                await fork_server._ready
        except (OSError, QuarantineUnavailable) as error:  # a TimeoutError is an OSError
            fork_server.kill()
            raise QuarantineUnavailable(
                "the quarantine process did not start; its error is in the server's log"
            ) from error
        except BaseException:
            fork_server.kill()
            raise
        return fork_server

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._control.fileno() >= 0

    async def fork(self) -> Worker:
        """Raise QuarantineUnavailable if the process died."""
        if not self.alive:
            raise QuarantineUnavailable("the quarantine process died")
        number = next(self._numbers)
        status = asyncio.get_running_loop().create_future()
        self._statuses[number] = status
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._control, [str(number).encode()], [theirs.fileno()])
            except OSError as error:
                ours.close()
                self.kill()
                raise QuarantineUnavailable("the quarantine process died") from error
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        return Worker(self, reader, writer, status)

    def kill(self) -> None:
        """End the process and its workers."""
        if self.alive:
            asyncio.get_running_loop().remove_reader(self._control.fileno())
            self._control.close()
        self._process.kill()
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        self._process.wait()
        error = QuarantineUnavailable("the quarantine process died")
        for future in (self._ready, *self._statuses.values()):
            if not future.done():
                future.set_exception(error)
                future.exception()  # marks it as retrieved: nobody may be waiting
        self._statuses.clear()

    def _on_control_message(self) -> None:
        try:
            message = self._control.recv(64)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if not message:
            self.kill()
        elif message == b"ready":
            self._ready.set_result(None)
        else:
            number, status = map(int, message.split())
            future = self._statuses.pop(number, None)
            if future is not None and not future.done():
                future.set_result(status)


def _spawn(control_fd: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.child", str(control_fd)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        pass_fds=[control_fd],
        env=os.environ | ENVIRONMENT,
        # A process group of its own, so that Ctrl-C does not end it; it ends with its socket. It
        # stays in the session, because Linux balances sessions against each other, and niceness
        # only counts within one (sched(7)).
        process_group=0,
    )


def _send_setup(process: subprocess.Popen[bytes], vocabulary: Vocabulary) -> None:
    setup = CompilerSetup.from_vocabulary(vocabulary)  # about 10 MB: created when needed, not kept
    assert process.stdin is not None
    with process.stdin as pipe:
        pipe.write(json.dumps(asdict(setup)).encode())
