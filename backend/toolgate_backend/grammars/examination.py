"""The examination of new schemas, in processes of the quarantine, which never import vLLM."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import xgrammar
from pydantic import BaseModel

from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.killable import Work
from toolgate_core.schema.canonical import canonical_json
from toolgate_core.wire import MEASUREMENTS, GrammarVerdict, InstanceWalk

from ..tokens.call_form import CallForm
from ..tokens.vocabulary import Vocabulary
from .compiled_grammar import measure
from .compiler import COMMON_SCHEMA, Compiler
from .engines.engine import CompiledGrammar
from .engines.llguidance_engine import LLGuidanceEngine, make_tokenizer, tokenizer_text
from .engines.xgrammar_engine import XGrammarEngine

COMPILER_CACHE_BYTES = 64 * 2**20


class CompileJob(BaseModel):
    key: str
    name: str
    parameters: str
    """Canonical JSON, in ASCII."""
    instances: tuple[Any, ...] | None = None
    """JSON values to walk through the masks of the grammar, which is then not measured."""


class Examined(BaseModel):
    verdict: GrammarVerdict
    walks: tuple[InstanceWalk, ...] = ()
    """One for each of the job's instances."""


def work(setup: bytes) -> Work:
    """Return the work of the processes of the quarantine."""
    made = CompilerSetup(**json.loads(setup))
    compiler = made.compiler(cache_bytes=COMPILER_CACHE_BYTES)
    compiler.warm_cache()
    usual = CompileJob(key="", name="usual", parameters=canonical_json(COMMON_SCHEMA))

    def warm_up() -> None:
        """Compile a typical tool. In a new fork, each page that a compile writes is copied first,
        which takes twice as long as the compile."""
        list(examine(compiler, usual))

    warm_up()  # what it builds from the vocabulary is shared with the forks
    return Work(CompileJob, lambda job: examine(compiler, job), warm_up)


def examine(compiler: Compiler, job: CompileJob) -> Iterator[Examined]:
    """Yield the verdict, and then the verdict with the measurements for budgets."""
    outcome = compiler.compile(job.key, job.name, job.parameters)
    verdict, grammar = outcome.verdict, outcome.grammar
    if job.instances is not None:
        yield Examined(verdict=verdict, walks=_walks(compiler, job, verdict, grammar))
        return
    yield Examined(verdict=verdict)
    if grammar is not None:
        yield Examined(verdict=_measured(compiler, job, verdict, grammar))


def _walks(
    compiler: Compiler, job: CompileJob, verdict: GrammarVerdict, grammar: CompiledGrammar | None
) -> tuple[InstanceWalk, ...]:
    if grammar is None or compiler.form.json_of(job.name) is None:
        return ()
    schema = json.loads(verdict.rewritten or job.parameters)
    return tuple(
        compiler.walker.walk(grammar, job.name, schema, each) for each in job.instances or ()
    )


def _measured(
    compiler: Compiler, job: CompileJob, verdict: GrammarVerdict, grammar: CompiledGrammar
) -> GrammarVerdict:
    try:
        parameters = json.loads(job.parameters)
        measured = measure(grammar, job.name, parameters, compiler.least_tokens, verdict.rewritten)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - a grammar is usable without measurements
        return verdict
    return verdict.model_copy(update={name: getattr(measured, name) for name in MEASUREMENTS})


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
