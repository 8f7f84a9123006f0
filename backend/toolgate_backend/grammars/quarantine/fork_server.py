"""The backend's end of the quarantine's process (quarantine_child.py): start it, fork workers."""

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

from ...errors import QuarantineDown
from ...vocabulary import Vocabulary
from ..compiler import Setup
from .protocol import MAX_FRAME, Answer, Job, frame

START_SECONDS = 300.0
"""Importing torch and reading a vocabulary: seconds, but minutes beside an engine that takes every
core and without compiled bytecode."""
STATUS_SECONDS = 5.0
"""Between a worker's end and the word of how it ended."""
GRACE_SECONDS = 5.0
"""Beyond a job's wall time, which the kernel keeps: after that the process itself is stuck."""

ENVIRONMENT = {
    "TOKENIZERS_PARALLELISM": "false",  # no threads: a fork would be without them
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
}

Kind = TypeVar("Kind", bound=BaseModel)


class WorkerEnded(Exception):
    """A worker ended without an answer; `signal` is what ended it, if one did."""

    def __init__(self, ended_by: signal.Signals | None) -> None:
        super().__init__(ended_by)
        self.signal = ended_by


class Worker:
    """One fork, one job at a time."""

    def __init__(
        self,
        zygote: ForkServer,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        status: asyncio.Future[int],
    ) -> None:
        self.zygote = zygote
        self._reader = reader
        self._writer = writer
        self._status = status

    async def examine(self, job: Job) -> Answer:
        """Raises WorkerEnded, or QuarantineDown when nothing is heard of it."""
        patience = job.limits.wall_seconds + GRACE_SECONDS
        try:
            self._writer.write(frame(job))
            async with asyncio.timeout(patience):
                answer = await self._read(Answer)
        except TimeoutError as error:
            raise QuarantineDown("the quarantine is stuck") from error
        except (OSError, EOFError) as error:
            raise WorkerEnded(await self._ended_by()) from error
        if not answer.figures_follow:
            return answer
        try:
            async with asyncio.timeout(patience):
                return await self._read(Answer)
        except (OSError, EOFError):  # a TimeoutError is an OSError
            return answer.model_copy(update={"renew": True})

    def close(self) -> None:
        """The worker ends with its connection."""
        self._writer.close()

    async def _read(self, kind: type[Kind]) -> Kind:
        length = int.from_bytes(await self._reader.readexactly(4), "big")
        if length > MAX_FRAME:
            raise EOFError
        return kind.model_validate_json(await self._reader.readexactly(length))

    async def _ended_by(self) -> signal.Signals | None:
        try:
            async with asyncio.timeout(STATUS_SECONDS):
                status = await asyncio.shield(self._status)
        except TimeoutError as error:
            raise QuarantineDown("the quarantine lost a worker") from error
        return signal.Signals(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else None


class ForkServer:
    """The warm process. `start` it once; a dead one is not brought back: take a new one."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self._process = process
        self._control = control
        self._numbers = itertools.count(1)
        self._statuses: dict[int, asyncio.Future[int]] = {}
        self._ready = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(control.fileno(), self._heard)

    @classmethod
    async def start(cls, vocabulary: Vocabulary) -> ForkServer:
        """Raises QuarantineDown when it does not come up."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with theirs:
            process = _spawn(theirs.fileno())
        zygote = cls(process, ours)
        try:
            async with asyncio.timeout(START_SECONDS):
                await asyncio.to_thread(_send_setup, process, vocabulary)
                await zygote._ready
        except (OSError, QuarantineDown) as error:  # a TimeoutError is an OSError
            zygote.kill()
            raise QuarantineDown("the quarantine does not start; see the log") from error
        except BaseException:
            zygote.kill()
            raise
        return zygote

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._control.fileno() >= 0

    async def fork(self) -> Worker:
        """Raises QuarantineDown."""
        if not self.alive:
            raise QuarantineDown("the quarantine died")
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
                raise QuarantineDown("the quarantine died") from error
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        return Worker(self, reader, writer, status)

    def kill(self) -> None:
        """End it and its workers."""
        if self.alive:
            asyncio.get_running_loop().remove_reader(self._control.fileno())
            self._control.close()
        self._process.kill()
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        self._process.wait()
        lost = QuarantineDown("the quarantine died")
        for waiting in (self._ready, *self._statuses.values()):
            if not waiting.done():
                waiting.set_exception(lost)
                waiting.exception()  # seen: nobody has to be waiting
        self._statuses.clear()

    def _heard(self) -> None:
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
            waiting = self._statuses.pop(number, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(status)


def _spawn(control_fd: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.child", str(control_fd)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        pass_fds=[control_fd],
        env=os.environ | ENVIRONMENT,
        # Not in the terminal's group: it ends with its socket, not by a Ctrl-C. In its session,
        # though: Linux weighs sessions against each other, and niceness only within one (sched(7)).
        process_group=0,
    )


def _send_setup(process: subprocess.Popen[bytes], vocabulary: Vocabulary) -> None:
    setup = Setup.of(vocabulary)  # some 10 MB: made again when needed, not kept
    assert process.stdin is not None
    with process.stdin as pipe:
        pipe.write(json.dumps(asdict(setup)).encode())
