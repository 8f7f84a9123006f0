"""The threads that load grammars in the engine."""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import pytest

from toolgate_backend.grammars import loader_threads
from toolgate_backend.grammars.compiler import NICENESS
from toolgate_backend.grammars.loader_threads import LoaderThreads, LoadLimits
from toolgate_core import killable

Result = TypeVar("Result")
FAR = LoadLimits(cpu_seconds=1_000, wall_seconds=1_000)
SHORT = LoadLimits(cpu_seconds=0.2, wall_seconds=1_000)


def result_of(threads: LoaderThreads, job: Callable[[], Result]) -> Future[Result]:
    future: Future[Result] = Future()
    threads.submit(lambda: future.set_result(job()), "result")
    return future


def test_loading_threads_have_more_stack_than_the_quarantine() -> None:
    """Native recursion that succeeds in the quarantine must not overflow the engine's stack."""
    before = threading.stack_size()
    threads = LoaderThreads(2, FAR)
    sizes = {result_of(threads, _stack_of_this_thread).result() for _ in range(8)}
    assert min(sizes) >= loader_threads.STACK_BYTES > killable.STACK_BYTES
    assert threading.stack_size() == before


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no niceness of their own")
@pytest.mark.parametrize("raised", [0, 3, 12])
def test_loading_threads_have_lower_priority_than_the_engine(raised: int) -> None:
    with ThreadPoolExecutor(1, initializer=_raise_niceness, initargs=(raised,)) as engine:
        own, loading = engine.submit(_niceness_here_and_in_a_loader).result()
    assert loading == min(19, own + NICENESS)


@pytest.mark.parametrize("native", [False, True], ids=["in Python", "in native code"])
def test_a_job_that_does_not_end_is_abandoned_and_its_thread_replaced(native: bool) -> None:
    threads = LoaderThreads(2, SHORT)
    ended = [threading.Event(), threading.Event()]
    for at, event in enumerate(ended):
        threads.submit(lambda event=event: _run_on(event, native), f"stuck {at}")
    waiting = result_of(threads, lambda: "loaded")
    abandoned: list[str] = []
    while len(abandoned) < 2:
        abandoned += threads.abandon_overdue()
        time.sleep(0.01)
    assert sorted(abandoned) == ["stuck 0", "stuck 1"]
    assert waiting.result(timeout=60) == "loaded"
    if not native:
        assert all(event.wait(60) for event in ended)  # the jobs were interrupted
    assert threads.abandon_overdue() == []


def test_a_job_that_waits_for_long_is_abandoned() -> None:
    threads = LoaderThreads(1, LoadLimits(cpu_seconds=1_000, wall_seconds=0.1))
    threads.submit(lambda: time.sleep(0.5), "waits")
    waiting = result_of(threads, lambda: "loaded")
    while not (abandoned := threads.abandon_overdue()):
        time.sleep(0.01)
    assert abandoned == ["waits"]
    assert waiting.result(timeout=60) == "loaded"


def test_jobs_within_the_limits_and_those_without_a_key_are_left_alone() -> None:
    threads = LoaderThreads(1, SHORT)
    done = threading.Event()
    threads.submit(lambda: _spin(0.4, done))
    while not done.is_set():
        assert threads.abandon_overdue() == []
        time.sleep(0.01)
    assert result_of(threads, lambda: 1).result(timeout=60) == 1


def _run_on(ended: threading.Event, native: bool) -> None:
    """A walk without end, or one step of native code that takes long."""
    try:
        if native:
            hashlib.pbkdf2_hmac("sha256", b"", b"", 3_000_000)
        while not native:
            pass
    finally:
        ended.set()


def _spin(seconds: float, ended: threading.Event) -> None:
    started = time.thread_time()
    while time.thread_time() - started < seconds:
        pass
    ended.set()


def _raise_niceness(by: int) -> None:
    """Raise the niceness of this thread; threads it starts inherit it."""
    own = min(19, os.getpriority(os.PRIO_PROCESS, 0) + by)
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), own)


def _niceness_here_and_in_a_loader() -> tuple[int, int]:
    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    return niceness(), result_of(LoaderThreads(1, FAR), niceness).result()


def _stack_of_this_thread() -> int:
    libc, attributes, size = ctypes.CDLL(None), ctypes.create_string_buffer(256), ctypes.c_size_t()
    this = ctypes.c_ulong(threading.get_ident())
    assert libc.pthread_getattr_np(this, attributes) == 0
    assert libc.pthread_attr_getstacksize(attributes, ctypes.byref(size)) == 0
    return size.value
