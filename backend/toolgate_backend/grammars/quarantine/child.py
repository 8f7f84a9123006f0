"""The quarantine process: `python -m toolgate_backend.grammars.quarantine.child CONTROL_FD`.

It is a fork server. It imports the engines, which takes seconds, and reads the vocabulary from
stdin. Then it forks workers, each of which is ready within milliseconds. A worker examines schemas
under resource limits, over its own socket, and can be killed without loss. The process never
imports vLLM.

CONTROL_FD is a SOCK_SEQPACKET socket. It receives the number of a new worker, with the worker's
socket as ancillary data. It sends `ready`, and then `NUMBER WAIT_STATUS` for each worker that
ended. The process exits when the backend closes the socket.
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

from toolgate_core.host_probe import importing

with importing():
    from ..compiler import NICENESS, Compiler
    from .protocol import (
        MAX_FRAME_BYTES,
        CompileJob,
        CompileLimits,
        CompilerSetup,
        add_measurements,
        encode_frame,
        examine,
        warm_up,
    )

COMPILER_CACHE_BYTES = 64 * 2**20
STACK_BYTES = 8 * 2**20
"""Less than the stack of the engine's threads (store.py). A schema that overflows the stack must
fail here, not there."""
PR_SET_PDEATHSIG = 1
TIMER_SIGNALS = (signal.SIGPROF, signal.SIGALRM)
"""The signals that the timers send."""


def main(control_fd: int) -> None:
    setup = CompilerSetup(**json.loads(sys.stdin.buffer.read()))
    compiler = setup.compiler(cache_bytes=COMPILER_CACHE_BYTES)
    compiler.warm_cache()
    _ = compiler.least_tokens
    del setup
    os.nice(NICENESS)
    gc.collect()
    gc.freeze()  # the memory in use now stays shared with the forks, as no collection writes to it
    with socket.socket(fileno=control_fd) as control:
        control.send(b"ready")
        serve(control, compiler)


def serve(control: socket.socket, compiler: Compiler) -> None:
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
                    _become_worker(compiler, fds[0])
                os.close(fds[0])
                workers[pid] = int(number)


def _report_ended(control: socket.socket, workers: dict[int, int]) -> None:
    with contextlib.suppress(ChildProcessError):  # no worker is left
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            control.send(f"{workers.pop(pid)} {status}".encode())


def _become_worker(compiler: Compiler, fd: int) -> None:
    """Serve one socket until it closes. Never returns."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, *TIMER_SIGNALS):
            signal.signal(number, signal.SIG_DFL)
        # Signal masks are inherited through exec.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, TIMER_SIGNALS)
        parent = os.getppid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before prctl
            os._exit(1)
        _set_limit(resource.RLIMIT_CORE, 0)
        _set_limit(resource.RLIMIT_STACK, STACK_BYTES)
        with contextlib.suppress(OSError):  # no procfs
            Path("/proc/self/oom_score_adj").write_text("1000")
        warm_up(compiler)
        with socket.socket(fileno=fd) as connection:
            while (job := _next_job(connection)) is not None:
                with _limits(job.limits):
                    reply, grammar = examine(compiler, job)
                connection.sendall(encode_frame(reply))
                if reply.measurements_follow and grammar is not None:
                    with _limits(job.limits):
                        reply = add_measurements(compiler, job, reply, grammar)
                    connection.sendall(encode_frame(reply))
                del grammar
                if reply.replace_worker:
                    break
    except BaseException:  # noqa: BLE001 - a fork must not continue in its parent's loop
        os._exit(1)
    os._exit(0)  # without clean-up of the parent's resources


def _set_limit(name: int, wanted: int) -> None:
    """Set a soft limit to `wanted`, or to the hard limit if that is lower. The hard limit stays:
    only privileged processes may raise it."""
    _, hard = resource.getrlimit(name)
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(name, (soft, hard))


def _next_job(connection: socket.socket) -> CompileJob | None:
    header = connection.recv(4, socket.MSG_WAITALL)
    length = int.from_bytes(header, "big")
    if len(header) < 4 or length > MAX_FRAME_BYTES:
        return None
    return CompileJob.model_validate_json(connection.recv(length, socket.MSG_WAITALL))


@contextlib.contextmanager
def _limits(limits: CompileLimits) -> Iterator[None]:
    """Apply limits. At a time limit, the signal's default action ends the process, even inside
    native code. Allocations beyond the memory limit fail."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    _set_limit(resource.RLIMIT_AS, pages * resource.getpagesize() + limits.memory_bytes)
    # A timer, because RLIMIT_CPU counts whole seconds since the start of the process.
    signal.setitimer(signal.ITIMER_PROF, limits.cpu_seconds)
    signal.setitimer(signal.ITIMER_REAL, limits.wall_seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
