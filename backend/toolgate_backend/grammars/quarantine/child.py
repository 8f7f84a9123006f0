"""The quarantine's process: `python -m toolgate_backend.grammars.quarantine.child CONTROL_FD`.

It imports the engines (seconds), reads the vocabulary from stdin, and from then on forks: each fork
is warm within milliseconds, serves examinations over a socket of its own, under limits, and may be
killed without loss. It never imports vLLM.

CONTROL_FD is a SOCK_SEQPACKET socket. In: a worker's number, with the worker's socket as ancillary
data. Out: `ready`, then `NUMBER WAIT_STATUS` for each worker that ended. When the socket closes,
the backend is gone, and so are we.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import resource
import selectors
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from ..compiler import NICENESS, Compiler, Setup
from ..completion import Completion
from .protocol import MAX_FRAME, Job, Limits, examine, figures, frame, warm_up

COMPILER_CACHE_BYTES = 64 * 2**20
STACK_BYTES = 8 * 2**20
"""Less than the engine's threads have (store.py): what overflows here must not get there."""
PR_SET_PDEATHSIG = 1
DEADLY = (signal.SIGPROF, signal.SIGALRM)
"""What the timers send."""


def main(control_fd: int) -> None:
    setup = Setup(**json.loads(sys.stdin.buffer.read()))
    compiler = setup.compiler(cache_bytes=COMPILER_CACHE_BYTES)
    compiler.prime()
    completion = setup.completion()
    del setup
    os.nice(NICENESS)
    gc.collect()
    gc.freeze()  # what is here now stays shared with the forks: no collection touches its pages
    with socket.socket(fileno=control_fd) as control:
        control.send(b"ready")
        serve(control, compiler, completion)


def serve(control: socket.socket, compiler: Compiler, completion: Completion) -> None:
    workers: dict[int, int] = {}
    woken, wake = socket.socketpair()
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)  # only a handled signal writes to the fd
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if woken in ready:
                woken.recv(4096)
                _report_ended(control, workers)
            if control in ready:
                number, fds, _, _ = socket.recv_fds(control, 64, 1)
                if not number:
                    return
                pid = os.fork()
                if pid == 0:
                    _become_worker(compiler, completion, fds[0])
                os.close(fds[0])
                workers[pid] = int(number)


def _report_ended(control: socket.socket, workers: dict[int, int]) -> None:
    with contextlib.suppress(ChildProcessError):  # none is left
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            control.send(f"{workers.pop(pid)} {status}".encode())


def _become_worker(compiler: Compiler, completion: Completion, fd: int) -> None:
    """Serve one socket until it closes; never returns."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, *DEADLY):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, DEADLY)  # masks are inherited through exec
        parent = os.getppid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before it was watched
            os._exit(1)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _, most = resource.getrlimit(resource.RLIMIT_STACK)
        resource.setrlimit(resource.RLIMIT_STACK, (_least(STACK_BYTES, most), most))
        with contextlib.suppress(OSError):  # not a Linux with procfs
            Path("/proc/self/oom_score_adj").write_text("1000")
        warm_up(compiler, completion)
        with socket.socket(fileno=fd) as connection:
            while (job := _next_job(connection)) is not None:
                with _limits(job.limits):
                    answer, grammar = examine(compiler, job)
                connection.sendall(frame(answer))
                if answer.figures_follow and grammar is not None:
                    with _limits(job.limits):
                        answer = figures(compiler, completion, job, answer, grammar)
                    connection.sendall(frame(answer))
                del grammar
                if answer.renew:
                    break
    except BaseException:  # noqa: BLE001 - a fork must not run on into its parent's loop
        os._exit(1)
    os._exit(0)  # no clean-up of what belongs to the parent


def _least(one: int, limit: int) -> int:
    return one if limit == resource.RLIM_INFINITY else min(one, limit)


def _next_job(connection: socket.socket) -> Job | None:
    head = connection.recv(4, socket.MSG_WAITALL)
    length = int.from_bytes(head, "big")
    if len(head) < 4 or length > MAX_FRAME:
        return None
    return Job.model_validate_json(connection.recv(length, socket.MSG_WAITALL))


@contextlib.contextmanager
def _limits(limits: Limits) -> Iterator[None]:
    """Over its time the kernel ends this process by the signal's default action, also in the middle
    of native code; allocations beyond the memory fail."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    memory = pages * resource.getpagesize() + limits.memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (memory, resource.RLIM_INFINITY))
    # A timer, not RLIMIT_CPU: that counts whole seconds since the process began.
    signal.setitimer(signal.ITIMER_PROF, limits.cpu_seconds)
    signal.setitimer(signal.ITIMER_REAL, limits.wall_seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
