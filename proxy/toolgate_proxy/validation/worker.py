"""Worker process for validations with unknown cost.

It writes READY to stdout when it has started. Then it reads jobs from stdin and writes results to
stdout, one JSON object per line. If a job exceeds its processor time, a signal ends this process,
even inside native code. If a job exceeds the memory limit, the exit status is OUT_OF_MEMORY, or
native code aborts. The process also ends when the gateway ends, because stdin is then closed.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from typing import Any

from pydantic import BaseModel

from toolgate_core.custom_tools import INPUT, Grammar
from toolgate_core.schema.canonical import GRAMMAR
from toolgate_proxy.validation.validator import InvalidSchema, Validator, Violation

MEMORY_BYTES = 2**30
READY = b"ready\n"
OUT_OF_MEMORY = 3
"""Exit status. Python itself uses 1 and 2."""


class Job(BaseModel):
    tool_schema: dict[str, Any]
    grammar: Grammar | None = None
    """Read the arguments' input by this grammar instead of validating the arguments."""
    arguments: str | None
    """None: check only that the schema is valid."""
    unique: bool = False
    cpu_seconds: float


class JobResult(BaseModel):
    is_read: bool = True
    """Whether the grammar could be read."""
    violation: Violation | None = None
    schema_error: str | None = None
    schema_error_pointer: str = ""


def run(job: Job) -> JobResult:
    if job.grammar is not None and job.arguments is not None:
        return _read(job.grammar, json.loads(job.arguments)[INPUT])
    try:
        validator = Validator(job.tool_schema)
    except InvalidSchema as error:
        return JobResult(schema_error=error.reason, schema_error_pointer=error.pointer)
    if job.arguments is None:
        return JobResult()
    return JobResult(violation=validator.check(job.arguments, unique=job.unique))


def _read(grammar: Grammar, text: str) -> JobResult:
    # Imported here, so that workers start fast where no tool has a grammar.
    from toolgate_proxy.validation.grammar_reader import read_grammar

    matches = read_grammar(grammar)
    if matches is None:
        return JobResult(is_read=False)
    violation = Violation(pointer=f"/{INPUT}", keyword=GRAMMAR, schema_pointer="")
    return JobResult(violation=None if matches(text) else violation)


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C the gateway closes stdin
    _write(READY)
    for line in sys.stdin.buffer:
        try:
            job = Job.model_validate_json(line)
            signal.setitimer(signal.ITIMER_PROF, job.cpu_seconds)  # SIGPROF ends the process
            result = run(job)
            signal.setitimer(signal.ITIMER_PROF, 0)
        except MemoryError:
            os._exit(OUT_OF_MEMORY)  # without clean-up, which needs memory
        _write(result.model_dump_json().encode() + b"\n")


def _write(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
