"""A worker process: it runs jobs one after another, within limits.

It writes READY to stdout when it has started. Then it reads jobs from stdin and writes results to
stdout, one JSON object per line. If a job exceeds its processor time, a signal ends this process,
even inside native code. If a job exceeds the memory limit, the exit status is OUT_OF_MEMORY, or
native code aborts. The process also ends when the gateway ends, because stdin is then closed.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel

MEMORY_BYTES = 2**30
"""Limit on the memory of a process, unless it has one of its own."""
READY = b"ready\n"
OUT_OF_MEMORY = 3
"""Exit status. Python itself uses 1 and 2."""


class LimitedJob(BaseModel):
    cpu_seconds: float
    """Limit on the processor time of the job."""


JobT = TypeVar("JobT", bound=LimitedJob)


def serve(
    job_type: type[JobT], run: Callable[[JobT], BaseModel], *, memory_bytes: int = MEMORY_BYTES
) -> None:
    """Run jobs until stdin is closed."""
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C the gateway closes stdin
    _write(READY)
    for line in sys.stdin.buffer:
        try:
            job = job_type.model_validate_json(line)
            signal.setitimer(signal.ITIMER_PROF, job.cpu_seconds)  # SIGPROF ends the process
            result = run(job)
            signal.setitimer(signal.ITIMER_PROF, 0)
        except MemoryError:
            os._exit(OUT_OF_MEMORY)  # without clean-up, which needs memory
        _write(result.model_dump_json().encode() + b"\n")


def _write(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
