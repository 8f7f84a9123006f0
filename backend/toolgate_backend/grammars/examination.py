"""The examination of new schemas, in processes of the quarantine, which never import vLLM."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import xgrammar
from pydantic import BaseModel

from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.killable import Work
from toolgate_core.schema.canonical import canonical_json
from toolgate_core.wire import GrammarVerdict

from ..errors import BlobRejected
from ..tokens.call_form import CallForm
from ..tokens.vocabulary import Vocabulary
from .compiled_grammar import extra_tokens
from .compiler import COMMON_SCHEMA, Compiler
from .engines.engine import CompiledGrammar
from .engines.llguidance_engine import LLGuidanceEngine, make_tokenizer, tokenizer_text
from .engines.xgrammar_engine import XGrammarEngine

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
COMPILER_CACHE_BYTES = 64 * 2**20


class CompileJob(BaseModel):
    key: str
    name: str
    parameters: str
    """Canonical JSON, in ASCII."""


def work(setup: bytes) -> Work:
    """Return the work of the processes of the quarantine. `setup`: see `setup_of`."""
    compiler = compiler_of(setup, cache_bytes=COMPILER_CACHE_BYTES)
    compiler.warm_cache()
    usual = CompileJob(key="", name="usual", parameters=canonical_json(COMMON_SCHEMA))

    def warm_up() -> None:
        """Compile a typical tool. In a new fork, each page that a compile writes is copied first,
        which takes twice as long as the compile."""
        list(examine(compiler, usual))

    warm_up()  # what it builds from the vocabulary is shared with the forks
    return Work(CompileJob, lambda job: examine(compiler, job), warm_up)


def examine(compiler: Compiler, job: CompileJob) -> Iterator[GrammarVerdict]:
    """The verdict, and then the verdict with the measurements for budgets, and with a blob if that
    is worth it."""
    outcome = compiler.compile(job.key, job.name, job.parameters)
    verdict, grammar = outcome.verdict, outcome.grammar
    yield verdict
    if grammar is not None:
        yield _measured(compiler, job, verdict, grammar)


def _measured(
    compiler: Compiler, job: CompileJob, verdict: GrammarVerdict, grammar: CompiledGrammar
) -> GrammarVerdict:
    try:
        schema = json.loads(verdict.rewritten or job.parameters)
        measured = {
            "least_tokens": compiler.least_tokens.of(job.name, schema),
            "extra_tokens": extra_tokens(json.loads(job.parameters)),
        }
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - a grammar is usable without measurements
        return verdict
    verdict = verdict.model_copy(update=measured)
    compile_ms, size_mb = verdict.compile_ms or 0.0, grammar.size / 2**20
    if compile_ms < max(BLOB_MIN_COMPILE_MS, BLOB_MIN_MS_PER_MB * size_mb):
        return verdict
    return _with_blob(compiler, job, verdict, grammar)


def _with_blob(
    compiler: Compiler, job: CompileJob, verdict: GrammarVerdict, grammar: CompiledGrammar
) -> GrammarVerdict:
    """Return the verdict with the cost of loading the blob, and with the blob if loading is much
    cheaper."""
    try:
        packed = compiler.pack(job.key, grammar)
        if packed is None:
            return verdict
        started = time.thread_time()
        compiler.load(job.key, packed, job.parameters, verdict)
        load_ms = (time.thread_time() - started) * 1e3
    except BlobRejected:  # xgrammar cannot read its own output
        return verdict
    pays = load_ms * BLOB_SPEEDUP <= (verdict.compile_ms or 0.0)
    return verdict.model_copy(update={"load_ms": load_ms, "blob": packed if pays else None})


def setup_of(vocabulary: Vocabulary) -> bytes:
    """Return what a process without vLLM needs to compile as the engine's workers do."""
    setup = {
        "tokenizer_info": vocabulary.info.serialize_json(),  # xgrammar's
        "tokenizer": tokenizer_text(vocabulary.tokenizer),
        "size": vocabulary.size,
        "end": vocabulary.tokenizer.eos_token_id,
        "dialect": vocabulary.dialect.name,
        "marks": vocabulary.marks.tokens,
    }
    return json.dumps(setup).encode()


def compiler_of(setup: bytes, *, cache_bytes: int) -> Compiler:
    parts = json.loads(setup)
    info = xgrammar.TokenizerInfo.deserialize_json(parts["tokenizer_info"])
    return Compiler(
        CallForm(DIALECTS[parts["dialect"]], parts["marks"]),
        XGrammarEngine(info, cache_bytes=cache_bytes),
        LLGuidanceEngine(make_tokenizer(parts["tokenizer"], size=parts["size"], end=parts["end"])),
    )
