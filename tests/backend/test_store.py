"""The threads that compile grammars in the engine."""

from __future__ import annotations

import ctypes
import os
import sys
import threading

from toolgate_backend.grammars import quarantine_child, store


def test_the_engine_s_threads_have_more_stack_than_the_quarantine() -> None:
    """What native code recursed through there must not end the engine."""
    before = threading.stack_size()
    pool = store._roomy_pool(2)
    sizes = {pool.submit(_stack_of_this_thread).result() for _ in range(8)}
    assert min(sizes) >= store.STACK_BYTES > quarantine_child.STACK_BYTES
    assert threading.stack_size() == before
    if sys.platform == "linux":  # they give way to the engine's own
        nice = pool.submit(lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        assert nice.result() > os.getpriority(os.PRIO_PROCESS, 0)
    pool.shutdown()


def _stack_of_this_thread() -> int:
    libc, attributes, size = ctypes.CDLL(None), ctypes.create_string_buffer(256), ctypes.c_size_t()
    this = ctypes.c_ulong(threading.get_ident())
    assert libc.pthread_getattr_np(this, attributes) == 0
    assert libc.pthread_attr_getstacksize(attributes, ctypes.byref(size)) == 0
    return size.value
