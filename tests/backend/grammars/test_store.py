"""The threads that compile grammars in the engine."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from toolgate_backend.grammars import store
from toolgate_backend.grammars.compiler import NICENESS
from toolgate_backend.grammars.quarantine import child


def test_compile_threads_have_more_stack_than_the_quarantine() -> None:
    """Native recursion that succeeds in the quarantine must not overflow the engine's stack."""
    before = threading.stack_size()
    pool = store._compile_pool(2)
    sizes = {pool.submit(_stack_of_this_thread).result() for _ in range(8)}
    assert min(sizes) >= store.STACK_BYTES > child.STACK_BYTES
    assert threading.stack_size() == before
    pool.shutdown()


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no niceness of their own")
@pytest.mark.parametrize("raised", [0, 3, 12])
def test_compile_threads_have_lower_priority_than_the_engine(raised: int) -> None:
    with ThreadPoolExecutor(1, initializer=_raise_niceness, initargs=(raised,)) as engine:
        own, compiling = engine.submit(_niceness_here_and_in_a_pool).result()
    assert compiling == min(19, own + NICENESS)


def _raise_niceness(by: int) -> None:
    """Raise the niceness of this thread; threads it starts inherit it."""
    own = min(19, os.getpriority(os.PRIO_PROCESS, 0) + by)
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), own)


def _niceness_here_and_in_a_pool() -> tuple[int, int]:
    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    pool = store._compile_pool(1)
    compiling = pool.submit(niceness).result()
    pool.shutdown()
    return niceness(), compiling


def _stack_of_this_thread() -> int:
    libc, attributes, size = ctypes.CDLL(None), ctypes.create_string_buffer(256), ctypes.c_size_t()
    this = ctypes.c_ulong(threading.get_ident())
    assert libc.pthread_getattr_np(this, attributes) == 0
    assert libc.pthread_attr_getstacksize(attributes, ctypes.byref(size)) == 0
    return size.value
