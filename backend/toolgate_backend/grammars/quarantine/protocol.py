"""What crosses between the backend and the quarantine: the setup of its compiler, requests and
replies, and the examination of a schema.

A frame is a length of four bytes (big-endian) and JSON. No data is unpickled.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import xgrammar
from pydantic import BaseModel, ConfigDict

from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.schema.canonical import canonical_json
from toolgate_core.wire import MEASUREMENTS, GrammarVerdict, InstanceWalk

from ...errors import BlobRejected
from ...tokens.call_form import CallForm
from ...tokens.vocabulary import Vocabulary
from ..compiled_grammar import measure
from ..compiler import COMMON_SCHEMA, Compiler, RewrittenSchema
from ..engines.engine import CompiledGrammar
from ..engines.llguidance_engine import LLGuidanceEngine, make_tokenizer, tokenizer_text
from ..engines.xgrammar_engine import XGrammarEngine

BLOB_SPEEDUP = 5.0
"""A grammar gets a blob if loading it is this many times cheaper than compiling it. The blob must
also pay for its transfer through Redis and the network, which a compile does not need. Of 3,107
real tools with Qwen3's vocabulary, none gets one (bench-grammars): xgrammar's schemas compile in
4 ms and load in 2.7 ms. Long enums get one: 47 ms against 2.6 ms."""
BLOB_MIN_COMPILE_MS = 10.0
"""Faster compiles get no blob, because they are negligible in the cost of a request."""
BLOB_MIN_MS_PER_MB = 150.0
"""Grammars that compile faster than this, relative to their size, are not serialized. Grammars with
members in any order take 26 to 67 ms per MB to compile, but up to 2 s to serialize, and loading
them is slower than compiling. Long enums, whose blobs are worth storing, take 180 to 930 ms."""
REPLACE_WORKER_MS = 50.0
"""A worker is replaced after a compile that took longer. This frees its memory, and the next tool
with the same expensive parts is measured as in a new process."""

MAX_FRAME_BYTES = 64 * 2**20
CPU_SECONDS = 5.0
"""Maximum processor time for compiling a new schema. The slowest of 3,107 real ones took 27 ms."""
WALL_SECONDS = 45.0
"""The same in wall-clock time. It is longer, so that a busy machine does not cause a refusal, and
shorter than the 60 s that a gateway waits for grammars."""


class CompileLimits(BaseModel):
    """The limits of one examination."""

    model_config = ConfigDict(frozen=True)

    cpu_seconds: float = CPU_SECONDS
    wall_seconds: float = WALL_SECONDS
    memory_bytes: int


class CompileJob(BaseModel):
    key: str
    name: str
    parameters: str
    """Canonical JSON, in ASCII."""
    limits: CompileLimits
    instances: tuple[Any, ...] | None = None
    """JSON values to walk through the masks of the grammar, which is then not measured."""


class WorkerReply(BaseModel):
    verdict: GrammarVerdict | None
    """None if the memory limit was exceeded. It is the only limit that a worker can report
    itself."""
    replace_worker: bool
    """This worker accepts no more jobs."""
    measurements_follow: bool = False
    """A second reply with the measurements follows. If the worker dies before that, this reply is
    valid without them."""
    walks: tuple[InstanceWalk, ...] = ()
    """One for each of the job's instances."""


def encode_frame(message: BaseModel) -> bytes:
    body = message.model_dump_json().encode()
    return len(body).to_bytes(4, "big") + body


def examine(compiler: Compiler, job: CompileJob) -> tuple[WorkerReply, CompiledGrammar | None]:
    """The reply, and the grammar to measure if `measurements_follow`."""
    try:
        outcome = compiler.compile(job.key, job.name, job.parameters)
    except MemoryError:
        return WorkerReply(verdict=None, replace_worker=True), None
    compile_ms = outcome.verdict.compile_ms or 0.0
    replace_worker = compile_ms > REPLACE_WORKER_MS
    if job.instances is not None:
        walks = _walks(compiler, job, outcome.verdict, outcome.grammar)
        reply = WorkerReply(verdict=outcome.verdict, replace_worker=True, walks=walks)
        return reply, None
    has_grammar = outcome.grammar is not None
    return WorkerReply(
        verdict=outcome.verdict, replace_worker=replace_worker, measurements_follow=has_grammar
    ), outcome.grammar


def _walks(
    compiler: Compiler, job: CompileJob, verdict: GrammarVerdict, grammar: CompiledGrammar | None
) -> tuple[InstanceWalk, ...]:
    if grammar is None or compiler.form.json_of(job.name) is None:
        return ()
    schema = json.loads(verdict.rewritten or job.parameters)
    return tuple(
        compiler.walker.walk(grammar, job.name, schema, each) for each in job.instances or ()
    )


def warm_up(compiler: Compiler) -> None:
    """Compile a typical tool before the first real one. In a new fork, each page that a compile
    writes is copied first, which takes three times as long as the compile."""
    limits = CompileLimits(cpu_seconds=0, wall_seconds=0, memory_bytes=0)
    job = CompileJob(key="", name="usual", parameters=canonical_json(COMMON_SCHEMA), limits=limits)
    reply, grammar = examine(compiler, job)
    if grammar is not None:
        add_measurements(compiler, job, reply, grammar)


def add_measurements(
    compiler: Compiler, job: CompileJob, reply: WorkerReply, grammar: CompiledGrammar
) -> WorkerReply:
    """The reply with the measurements for budgets, and with a blob if that is worth it."""
    reply = reply.model_copy(update={"measurements_follow": False})
    assert reply.verdict is not None
    try:
        measured = measure(
            grammar,
            job.name,
            json.loads(job.parameters),
            compiler.least_tokens,
            reply.verdict.rewritten,
        )
    except MemoryError:
        return reply.model_copy(update={"replace_worker": True})
    except Exception:  # noqa: BLE001 - a grammar is usable without measurements
        return reply
    compile_ms, size_mb = reply.verdict.compile_ms or 0.0, grammar.size / 2**20
    worth_packing = compile_ms >= max(BLOB_MIN_COMPILE_MS, BLOB_MIN_MS_PER_MB * size_mb)
    values = {name: getattr(measured, name) for name in MEASUREMENTS}
    reply = _update_verdict(reply, values)
    return _with_blob(compiler, job, reply, grammar) if worth_packing else reply


def _with_blob(
    compiler: Compiler, job: CompileJob, reply: WorkerReply, grammar: CompiledGrammar
) -> WorkerReply:
    """The reply with the cost of loading the blob, and with the blob if loading is much cheaper."""
    assert reply.verdict is not None
    try:
        packed = compiler.pack(job.key, grammar)
        if packed is None:
            return reply
        started = time.thread_time()
        schema = reply.verdict.rewritten
        rewritten = RewrittenSchema(schema, reply.verdict.residual) if schema is not None else None
        compiler.load(job.key, packed, job.parameters, rewritten)
        load_ms = (time.thread_time() - started) * 1e3
    except BlobRejected:  # xgrammar cannot read its own output
        return reply
    except MemoryError:
        return reply.model_copy(update={"replace_worker": True})
    pays = load_ms * BLOB_SPEEDUP <= (reply.verdict.compile_ms or 0.0)
    return _update_verdict(reply, {"load_ms": load_ms, "blob": packed if pays else None})


def _update_verdict(reply: WorkerReply, values: dict[str, Any]) -> WorkerReply:
    assert reply.verdict is not None
    return reply.model_copy(update={"verdict": reply.verdict.model_copy(update=values)})


@dataclass(frozen=True)
class CompilerSetup:
    """What a process without vLLM needs to compile as the engine's workers do."""

    tokenizer_info: str
    """xgrammar's tokenizer info, serialized."""
    tokenizer: str
    """The JSON of the tokenizers library."""
    vocabulary_size: int
    end: int
    dialect: str
    marks: dict[str, int]
    """By text: the marks' token ids."""

    @classmethod
    def from_vocabulary(cls, vocabulary: Vocabulary) -> CompilerSetup:
        return cls(
            tokenizer_info=vocabulary.info.serialize_json(),
            tokenizer=tokenizer_text(vocabulary.tokenizer),
            vocabulary_size=vocabulary.size,
            end=vocabulary.tokenizer.eos_token_id,
            dialect=vocabulary.dialect.name,
            marks=vocabulary.marks.tokens,
        )

    def compiler(self, *, cache_bytes: int) -> Compiler:
        tokenizer = make_tokenizer(self.tokenizer, size=self.vocabulary_size, end=self.end)
        return Compiler(
            CallForm(DIALECTS[self.dialect], self.marks),
            XGrammarEngine(self._info, cache_bytes=cache_bytes),
            LLGuidanceEngine(tokenizer),
        )

    @cached_property
    def _info(self) -> Any:
        """Cached, because it parses several megabytes of JSON."""
        return xgrammar.TokenizerInfo.deserialize_json(self.tokenizer_info)
