"""What the quarantine is asked about a schema, what it answers, and how it comes to the answer.

Frames are a length of four bytes (big-endian) and JSON; nothing that crosses is unpickled.
"""

from __future__ import annotations

import time

from pydantic import BaseModel, ConfigDict

from toolgate_core.wire import GrammarVerdict

from ..errors import BlobRejected
from .compiler import Compiler, Outcome

BLOB_MARGIN = 5.0
"""A blob is given where loading it is this many times cheaper than compiling: the rest pays for its
way through the store and the network, which a compile does not take."""
BLOB_FLOOR_MS = 10.0
"""Below this a compile is lost among a request's other costs, and no blob is worth its bytes."""
RENEW_MS = 50.0
"""After a compile that took longer, the process is replaced: its memory comes back, and the next
tool that shares the expensive part is measured as a fresh backend would meet it."""

MAX_FRAME = 64 * 2**20


class Limits(BaseModel):
    """Of one examination."""

    model_config = ConfigDict(frozen=True)

    cpu_seconds: float
    wall_seconds: float
    memory_bytes: int


class Job(BaseModel):
    key: str
    name: str
    parameters: str
    """Canonical JSON: ASCII, whatever the schema holds."""
    limits: Limits


class Answer(BaseModel):
    verdict: GrammarVerdict | None
    """None when memory ran out, which is the one limit that a process lives to tell."""
    renew: bool
    """This process takes no more jobs."""


def frame(message: BaseModel) -> bytes:
    body = message.model_dump_json().encode()
    return len(body).to_bytes(4, "big") + body


def examine(compiler: Compiler, job: Job) -> Answer:
    try:
        outcome = compiler.compile(job.key, job.name, job.parameters)
        verdict = _with_blob(compiler, job, outcome)
    except MemoryError:
        return Answer(verdict=None, renew=True)
    return Answer(verdict=verdict, renew=(verdict.compile_ms or 0.0) > RENEW_MS)


def _with_blob(compiler: Compiler, job: Job, outcome: Outcome) -> GrammarVerdict:
    """The verdict, with what loading the blob costs, and the blob where that pays."""
    compile_ms = outcome.verdict.compile_ms or 0.0
    if outcome.grammar is None or compile_ms < BLOB_FLOOR_MS:
        return outcome.verdict
    packed = compiler.pack(job.key, outcome.grammar)
    if packed is None:
        return outcome.verdict
    began = time.thread_time()
    try:
        compiler.load(job.key, packed, job.parameters)
    except BlobRejected:  # xgrammar cannot read what it wrote: then there is none
        return outcome.verdict
    load_ms = (time.thread_time() - began) * 1e3
    pays = load_ms * BLOB_MARGIN <= compile_ms
    return outcome.verdict.model_copy(update={"load_ms": load_ms, "blob": packed if pays else None})
