"""A function in a fork of this process, under limits on time and memory. Grammar engines may crash,
or take minutes and gigabytes."""

from __future__ import annotations

import json
import os
import resource
import signal
from collections.abc import Callable
from typing import Any

MEMORY_BYTES = 4 * 2**30


def isolated(work: Callable[[], dict[str, Any]], seconds: float) -> dict[str, Any]:
    """The result of `work`, or {"failed": reason}. The result is JSON."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        status = 1
        try:
            _limit(seconds)
            result = json.dumps(work())
            with os.fdopen(write, "w") as pipe:
                pipe.write(result)
            status = 0
        except BaseException as error:  # noqa: BLE001 - a fork must not go on in its parent's code
            os.write(2, f"{type(error).__name__}: {error}\n".encode(errors="replace")[:2000])
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    _, status = os.waitpid(pid, 0)
    if status == 0:
        result = json.loads(text)
        assert isinstance(result, dict)
        return result
    if os.WIFSIGNALED(status):
        timed_out = os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGALRM)
        return {"failed": "time" if timed_out else "crash"}
    return {"failed": "error"}


def _limit(seconds: float) -> None:
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    with open("/proc/self/statm") as statm:  # noqa: PTH123 - the fork opens as little as it can
        pages = int(statm.read().split()[0])
    limit = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 6 * seconds)
