"""Children of a server that end with it.

vLLM's engine and worker processes keep running, with their memory, if the process that started them
is killed. Each watches its parent and ends when the parent does.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing import connection

_watching = threading.Event()


def end_with_parent() -> None:
    """Start the watch if this process is a child of a server. Does nothing in other processes, and
    when called again."""
    parent = multiprocessing.parent_process()
    if parent is None or _watching.is_set():
        return
    _watching.set()
    threading.Thread(
        target=_watch, args=(parent.sentinel,), name="toolgate-parent-watch", daemon=True
    ).start()


def _watch(sentinel: int) -> None:
    connection.wait([sentinel])
    # The process group stays: it may be shared with the operator's shell. A signal ends the process
    # although its main thread is inside native code.
    os.kill(os.getpid(), signal.SIGKILL)
