"""Compilation of a schema with the engine of choice. The result is always a verdict, even for
schemas that crash an engine.

The engine's workers and the quarantine use the same compiler, so that both reach the same verdict.
Only the quarantine rewrites schemas; the workers receive its verdict.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NoReturn

from toolgate_core import grammar_key
from toolgate_core.custom_tools import grammar_of
from toolgate_core.errors import SchemaNotEnforceable, SchemaTooComplex
from toolgate_core.schema.canonical import TEXT, canonical_json
from toolgate_core.schema.preparation.checks import unsatisfiable_part
from toolgate_core.wire import GrammarVerdict

from ..errors import BlobRejected, GrammarRefused, NotRepresentable
from ..tokens.call_form import CallForm
from ..tokens.units import TokenIndex
from . import blob
from .engines.choice import NOT_XGRAMMAR, Choice, fallback_choices, make_choice
from .engines.engine import CompiledGrammar, Engine
from .engines.llguidance_engine import LLGuidanceEngine, make_tokenizer, tokenizer_text
from .least_tokens import LeastTokens
from .read_back import InstanceWalker, misread

if TYPE_CHECKING:
    from ..tokens.vocabulary import Vocabulary
    from .engines.xgrammar_engine import XGrammarEngine

MAX_GRAMMAR_BYTES = 64 * 2**20
"""Maximum size of one compiled grammar, which the engine keeps in memory. The largest of 1,881 real
ones takes 0.6 MB."""
MAX_REWRITTEN = 2_000_000
"""Maximum length of a rewritten schema, in characters. The engine reads it once more."""
MAX_PACKED_BYTES = 2**19
"""Larger compiled grammars get no blob: serializing takes up to 6 s per MB. Those whose blobs pay,
long enums, have up to 0.3 MB."""
NICENESS = 10
"""Added to the niceness of compiling threads and processes, which may share their cores with the
engine's steps."""
MAX_REASON_LENGTH = 300
UNSATISFIABLE = "Unsatisfiable schema"
"""llguidance's message for a schema that no value satisfies."""

COMMON_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {"type": "string"},
        "b": {"type": "array", "items": {"type": "integer"}},
        "c": {"type": "number"},
        "d": {"type": "boolean"},
        "e": {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]},
    },
    "required": ["a", "b"],
    "additionalProperties": False,
}
"""The keywords that nearly every tool uses. This schema is compiled at start-up, because the masks
of a JSON string cost ten times as much as the rest of a typical tool. xgrammar's compiler shares
them between grammars."""


@dataclass(frozen=True)
class CompileResult:
    verdict: GrammarVerdict
    grammar: CompiledGrammar | None
    """None unless the verdict is `ready`."""


class Compiler:
    def __init__(
        self,
        form: CallForm,
        xgrammar_engine: XGrammarEngine | None,
        llguidance_engine: LLGuidanceEngine,
    ) -> None:
        """Without xgrammar, which needs torch, the verdicts are the same, but the grammars of the
        schemas that are chosen for it have no masks."""
        self.form = form
        self._xgrammar = xgrammar_engine
        self._llguidance = llguidance_engine

    @cached_property
    def token_bytes(self) -> list[bytes]:
        """The bytes of each token; empty without xgrammar."""
        return self._xgrammar.token_bytes if self._xgrammar else []

    @cached_property
    def least_tokens(self) -> LeastTokens:
        index = TokenIndex(self.token_bytes, frozenset(), self.form.marks.symbol_of_token)
        return LeastTokens(self.form, index)

    @cached_property
    def walker(self) -> InstanceWalker:
        return InstanceWalker(self.form, self._llguidance.encode, self.token_bytes)

    @classmethod
    def from_vocabulary(cls, vocabulary: Vocabulary, *, cache_bytes: int) -> Compiler:
        from .engines.xgrammar_engine import XGrammarEngine  # imports torch

        tokenizer = make_tokenizer(
            tokenizer_text(vocabulary.tokenizer),
            size=vocabulary.size,
            end=vocabulary.tokenizer.eos_token_id,
        )
        return cls(
            vocabulary.form,
            XGrammarEngine(vocabulary.info, cache_bytes=cache_bytes),
            LLGuidanceEngine(tokenizer),
        )

    def warm_cache(self) -> None:
        """Compile what nearly all tools share, so that the first tool does not have to wait
        for it."""
        self._llguidance.custom.prepare(self.form)
        is_json = self.form.json_of("common") is not None
        engines: tuple[Engine | None, ...] = (self._xgrammar, self._llguidance)
        for engine in filter(None, engines):
            engine.compile(self.form, "common" if is_json else grammar_key.CONTENT, COMMON_SCHEMA)
        if not is_json:
            self._llguidance.compile_arguments(self.form, "common", COMMON_SCHEMA, COMMON_SCHEMA)

    def compile(
        self, key: str, name: str, parameters: str, known: GrammarVerdict | None = None
    ) -> CompileResult:
        """Compile the grammar of a tool, or refuse its schema. `parameters` is canonical JSON,
        `known` the verdict of an earlier compile, which has rewritten the schema for its engine.
        `compile_ms` of the verdict is the processor time of this thread."""
        started = time.thread_time()
        grammar: CompiledGrammar | None = None
        try:
            choice, compiled = self._compiled(name, parameters, known)
        except GrammarRefused as refused:
            fields = _refused_fields(refused.reason, refused.pointer)
        except SchemaNotEnforceable as error:
            fields = _refused_fields(error.message, error.pointer)
        except (MemoryError, KeyboardInterrupt, SystemExit):
            raise  # a resource limit or a signal to this process is no verdict on the schema
        except BaseException as error:  # noqa: BLE001 - a panic in Rust is no Exception
            fields = _refused_fields(f"not a valid JSON Schema ({type(error).__name__}: {error})")
        else:
            fields = _ready_fields(choice, parameters)
            if compiled.size > MAX_GRAMMAR_BYTES:
                reason = f"the compiled grammar takes more than {MAX_GRAMMAR_BYTES // 2**20} MB"
                fields = _refused_fields(reason, code=SchemaTooComplex.code)
            elif len(fields["rewritten"] or "") > MAX_REWRITTEN:
                reason = f"its rewritten form has more than {MAX_REWRITTEN:,} characters"
                fields = _refused_fields(reason, code=SchemaTooComplex.code)
            else:
                grammar = compiled
        fields["compile_ms"] = (time.thread_time() - started) * 1e3
        return CompileResult(GrammarVerdict(key=key, **fields), grammar)

    def _compiled(
        self, name: str, parameters: str, known: GrammarVerdict | None
    ) -> tuple[Choice, CompiledGrammar]:
        """Return the grammar, and the choice that an engine compiled. Raise GrammarRefused or
        SchemaNotEnforceable."""
        schema = json.loads(parameters)
        if (definition := grammar_of(schema)) is not None:
            choice = Choice("llguidance", "a grammar of text", schema)
            return choice, self._llguidance.custom.compile(self.form, name, definition)
        if name == grammar_key.CONTENT and TEXT in schema:
            choice = Choice("llguidance", "a text format, not JSON", schema)
            return choice, self._llguidance.compile_text(schema[TEXT])
        is_json = self.form.json_of(name) is not None
        first: GrammarRefused | None = None
        for choice in self._choices(name, schema, known):
            try:
                if is_json:
                    return self._compiled_json(name, choice, known=known is not None)
                grammar, residual = self._llguidance.compile_arguments(
                    self.form, name, choice.schema, schema
                )
                return choice.beyond_json(residual), grammar
            except NotRepresentable:
                raise
            except GrammarRefused as refused:
                if first is not None and UNSATISFIABLE in refused.reason:
                    break  # even a looser schema is unsatisfiable
                first = first or refused
        assert first is not None
        raise first

    def _compiled_json(
        self, name: str, choice: Choice, *, known: bool
    ) -> tuple[Choice, CompiledGrammar]:
        """Compile with the engine of choice, or with llguidance if xgrammar refuses or misreads the
        schema. `known`: an earlier compile has read the grammar back."""
        engine: Engine | None = self._xgrammar
        if choice.engine != "xgrammar":
            engine = self._llguidance
        schema = {key: value for key, value in choice.schema.items() if key != NOT_XGRAMMAR}
        try:
            if engine is None:
                if unsatisfiable_part(schema) is not None:
                    raise GrammarRefused("no value satisfies it", "")
                return choice, CompiledGrammar(_no_masks, prefix=b"")
            grammar = engine.compile(self.form, name, schema)
            accepts = partial(self.walker.accepts, grammar, name, schema)
            if not known and self.token_bytes and (wrong := misread(schema, accepts)):
                value = json.dumps(wrong[0])[:MAX_REASON_LENGTH]
                raise GrammarRefused(f"{engine.name} misreads it: the value {value}", "")
        except GrammarRefused as refused:
            if choice.engine != "xgrammar":
                raise
            return self._compiled_json(name, choice.without_xgrammar(refused.reason), known=known)
        return choice, grammar

    def _choices(
        self, name: str, schema: dict[str, Any], known: GrammarVerdict | None
    ) -> Iterator[Choice]:
        """Return the choices to try in turn. A schema that was rewritten before has one only."""
        if known is not None:
            given = schema if known.rewritten is None else json.loads(known.rewritten)
            return iter([make_choice(given, known.residual)])

        def compiles(prepared: dict[str, Any]) -> bool:
            try:
                if self.form.json_of(name) is not None:
                    self._llguidance.compile(self.form, name, prepared)
                else:
                    self._llguidance.compile_arguments(self.form, name, prepared, schema)
            except GrammarRefused:
                return False
            return True

        return fallback_choices(schema, compiles)

    def load(
        self, key: str, packed: str, parameters: str, known: GrammarVerdict | None = None
    ) -> CompileResult:
        """Load a grammar from a blob. The verdict equals that of a compile. Raise BlobRejected."""
        schema = json.loads(parameters)
        if TEXT in schema or grammar_of(schema) is not None:
            raise BlobRejected("the blob is for a grammar of text, which xgrammar does not compile")
        choice = next(self._choices(grammar_key.CONTENT, schema, known))
        if choice.engine != "xgrammar":
            raise BlobRejected("the blob is for a schema that xgrammar does not compile")
        assert self._xgrammar is not None
        started = time.thread_time()
        grammar = self._xgrammar.deserialize(blob.unpack(key, packed), choice.schema)
        load_ms = (time.thread_time() - started) * 1e3
        return CompileResult(
            GrammarVerdict(key=key, load_ms=load_ms, **_ready_fields(choice, parameters)), grammar
        )

    def pack(self, key: str, grammar: CompiledGrammar) -> str | None:
        """Return the grammar's blob; None if it has no serial form or is too large."""
        if grammar.serialize is None or grammar.size > MAX_PACKED_BYTES:
            return None
        return blob.pack(key, grammar.serialize())


def _no_masks() -> NoReturn:
    raise NotImplementedError("xgrammar is not installed, so this grammar has no masks")


def _ready_fields(choice: Choice, parameters: str) -> dict[str, Any]:
    """Return the fields of a `ready` verdict."""
    text = canonical_json(choice.schema)
    return {
        "status": "ready",
        "engine": choice.engine,
        "reason": _clean_reason(choice.reason),
        "residual": choice.residual,
        "rewritten": None if text == parameters else text,
    }


def _refused_fields(
    reason: str, pointer: str = "", code: str = SchemaNotEnforceable.code
) -> dict[str, Any]:
    """Return the fields of a `refused` verdict."""
    return {
        "status": "refused",
        "code": code,
        "reason": _clean_reason(reason),
        "pointer": pointer,
    }


def _clean_reason(reason: str) -> str:
    """Limit a message's length and make it valid UTF-8: it may quote a lone surrogate of the
    schema."""
    return reason[:MAX_REASON_LENGTH].encode(errors="replace").decode()
