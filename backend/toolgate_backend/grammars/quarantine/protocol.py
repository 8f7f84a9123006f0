"""What the quarantine is asked about a schema, what it answers, and how it comes to the answer.

Frames are a length of four bytes (big-endian) and JSON; nothing that crosses is unpickled.
"""

from __future__ import annotations

import json
import time
from typing import Any

from pydantic import BaseModel, ConfigDict

from toolgate_core.grammar_key import canonical_json
from toolgate_core.wire import GrammarVerdict

from ...errors import BlobRejected
from ..compiled_grammar import measure
from ..compiler import COMMON, Compiler, Rewritten
from ..completion import Completion
from ..engines.engine import CompiledGrammar

BLOB_MARGIN = 5.0
"""A blob is given where loading it is this many times cheaper than compiling: the rest pays for its
way through the store and the network, which a compile does not take. Of 3,107 real tools at Qwen3's
vocabulary none gets one (bench/grammars.py): what xgrammar is given compiles in 4 ms and loads in
2.7. Long enums do: 47 ms against 2.6."""
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
    figures_follow: bool = False
    """A second answer follows, the verdict with all figures; if that dies, this one holds."""


def frame(message: BaseModel) -> bytes:
    body = message.model_dump_json().encode()
    return len(body).to_bytes(4, "big") + body


def examine(compiler: Compiler, job: Job) -> tuple[Answer, CompiledGrammar | None]:
    """The answer, and the grammar whose figures are to follow when it says so."""
    try:
        outcome = compiler.compile(job.key, job.name, job.parameters)
    except MemoryError:
        return Answer(verdict=None, renew=True), None
    compile_ms = outcome.verdict.compile_ms or 0.0
    renew = compile_ms > RENEW_MS
    follow = outcome.grammar is not None
    return Answer(verdict=outcome.verdict, renew=renew, figures_follow=follow), outcome.grammar


def warm_up(compiler: Compiler, completion: Completion) -> None:
    """A usual tool, before the first real one: of a process that was just forked, each page that a
    compile writes has to be copied first, which takes three times as long as the compile."""
    limits = Limits(cpu_seconds=0, wall_seconds=0, memory_bytes=0)
    job = Job(key="", name="usual", parameters=canonical_json(COMMON), limits=limits)
    answer, grammar = examine(compiler, job)
    if grammar is not None:
        figures(compiler, completion, job, answer, grammar)


def figures(
    compiler: Compiler, completion: Completion, job: Job, answer: Answer, grammar: CompiledGrammar
) -> Answer:
    """The verdict with what budgets need to know, and a blob where that pays."""
    answer = answer.model_copy(update={"figures_follow": False})
    assert answer.verdict is not None
    try:
        measured = measure(grammar, json.loads(job.parameters), completion)
    except MemoryError:
        return answer.model_copy(update={"renew": True})
    except Exception:  # noqa: BLE001 - a grammar without figures is a grammar all the same
        return answer
    packs = (answer.verdict.compile_ms or 0.0) >= BLOB_FLOOR_MS
    found = {"least_tokens": measured.least_tokens, "growth": measured.growth}
    answer = _with(answer, found)
    return _packed(compiler, job, answer, grammar) if packs else answer


def _packed(compiler: Compiler, job: Job, answer: Answer, grammar: CompiledGrammar) -> Answer:
    """With what loading the blob costs, and the blob where that pays."""
    assert answer.verdict is not None
    try:
        packed = compiler.pack(job.key, grammar)
        if packed is None:
            return answer
        began = time.thread_time()
        made = Rewritten.of(answer.verdict.rewritten, answer.verdict.residual)
        compiler.load(job.key, packed, job.parameters, made)
        load_ms = (time.thread_time() - began) * 1e3
    except BlobRejected:  # xgrammar cannot read what it wrote: then there is none
        return answer
    except MemoryError:
        return answer.model_copy(update={"renew": True})
    pays = load_ms * BLOB_MARGIN <= (answer.verdict.compile_ms or 0.0)
    return _with(answer, {"load_ms": load_ms, "blob": packed if pays else None})


def _with(answer: Answer, found: dict[str, Any]) -> Answer:
    assert answer.verdict is not None
    return answer.model_copy(update={"verdict": answer.verdict.model_copy(update=found)})
