"""The threads that load grammars in an engine process, and the memory of released ones.

They share the process with the engine's steps, so they have a lower priority. Each job has a limit
on its processor time and on its duration. The thread of a job that exceeds one is replaced, and the
job is interrupted: at its next step of Python, or when its native code returns.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue

from toolgate_core.killable import JobLimits

from .compiler import NICENESS

STACK_BYTES = 32 * 2**20
"""Stack size of a loading thread. The memory is reserved, not used. It is larger than that of the
quarantine's process: native code that recursed without a stack overflow there must not overflow
here. A thread's default stack may be 2 MB."""


class Abandoned(BaseException):
    """Interrupts a job that exceeds its limits. No handler of `Exception` catches it."""


@dataclass
class _Running:
    key: str
    thread_id: int
    clock: int
    """The clock of the thread's processor time."""
    cpu_started: float
    started: float

    def exceeds(self, limits: JobLimits) -> bool:
        if time.monotonic() - self.started > limits.wall_seconds:
            return True
        return time.clock_gettime(self.clock) - self.cpu_started > limits.cpu_seconds


class LoaderThreads:
    """Runs jobs in their order on `count` threads. Only the limits on time apply."""

    def __init__(self, count: int, limits: JobLimits) -> None:
        self._limits = limits
        self._jobs: SimpleQueue[tuple[str | None, Callable[[], None]]] = SimpleQueue()
        self._running: dict[threading.Thread, _Running] = {}
        self._lock = threading.Lock()
        self._threads = {self._start() for _ in range(count)}

    def submit(self, job: Callable[[], None], key: str | None = None) -> None:
        """`key` names the job in `abandon_overdue`. A job without a key has no limits."""
        self._jobs.put((key, job))

    def abandon_overdue(self) -> list[str]:
        """Abandon the jobs that exceed their limits, and replace their threads. Return the keys of
        the jobs."""
        with self._lock:
            overdue = {
                thread: running
                for thread, running in self._running.items()
                if running.exceeds(self._limits)
            }
            for thread, running in overdue.items():
                del self._running[thread]
                self._threads.remove(thread)
                self._threads.add(self._start())
                _interrupt(running.thread_id)
        return [running.key for running in overdue.values()]

    def _start(self) -> threading.Thread:
        before = threading.stack_size(STACK_BYTES)
        try:
            # A daemon, because the process may end although a job does not.
            thread = threading.Thread(target=self._work, name="toolgate-load", daemon=True)
            thread.start()
        finally:
            threading.stack_size(before)
        return thread

    def _work(self) -> None:
        lower_priority()
        this, thread_id = threading.current_thread(), threading.get_ident()
        clock = time.pthread_getcpuclockid(thread_id)
        with suppress(Abandoned):
            while True:
                key, job = self._jobs.get()
                if key is None:
                    job()
                    continue
                cpu_started, started = time.clock_gettime(clock), time.monotonic()
                with self._lock:
                    self._running[this] = _Running(key, thread_id, clock, cpu_started, started)
                job()
                with self._lock:
                    if self._running.pop(this, None) is None:
                        return  # this thread was replaced


def lower_priority() -> None:
    """Lower this thread's priority below that of the engine, whose niceness it inherited."""
    with suppress(OSError):  # only Linux has a niceness for each thread
        niceness = min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)


def _interrupt(thread_id: int) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread_id), ctypes.py_object(Abandoned)
    )


RETURN_SECONDS = 60.0
"""Shortest time between two returns of freed memory. One takes milliseconds, in which other threads
may wait for memory.

Grammars and graphs are many small objects of native code and Python, among others that stay, so
glibc keeps their pages: after 3,000 schemas with a call each, a process of 235 MB had 83 MB of free
memory."""
