"""A process that checks arguments against schemas whose cost nobody can tell beforehand.

One JSON object a line: jobs come in on stdin, answers go out on stdout. A job that takes more
processor time than it may is ended by a signal, with this process, even inside native code.
"""

from __future__ import annotations

import resource
import signal
import sys
from typing import Any

from pydantic import BaseModel

from toolgate_proxy.validation.validator import BadSchema, Validator, Violation

MEMORY_BYTES = 2**30


class Job(BaseModel):
    tool_schema: dict[str, Any]
    arguments: str | None
    """None: only whether the schema is a valid one."""
    unique: bool = False
    cpu_seconds: float


class Answer(BaseModel):
    violation: Violation | None = None
    bad_schema: str | None = None
    bad_pointer: str = ""


def answer(job: Job) -> Answer:
    try:
        validator = Validator(job.tool_schema)
    except BadSchema as error:
        return Answer(bad_schema=error.reason, bad_pointer=error.pointer)
    if job.arguments is None:
        return Answer()
    return Answer(violation=validator.check(job.arguments, unique=job.unique))


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the gateway's, which closes stdin
    for line in sys.stdin.buffer:
        job = Job.model_validate_json(line)
        signal.setitimer(signal.ITIMER_PROF, job.cpu_seconds)  # SIGPROF's default is the end
        told = answer(job)
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.buffer.write(told.model_dump_json().encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
