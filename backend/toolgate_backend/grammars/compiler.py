"""Compilation of a schema with the engine of choice. The result is always a verdict, even for
schemas that crash an engine.

The engine's workers and the quarantine use the same compiler, so that both reach the same verdict.
Only the quarantine rewrites schemas; the workers receive a `RewrittenSchema`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from toolgate_core import grammar_key
from toolgate_core.custom_tools import grammar_of
from toolgate_core.dialects.codecs import Json
from toolgate_core.errors import SchemaNotEnforceable, SchemaTooComplex
from toolgate_core.schema.canonical import NARROW, TEXT, canonical_json
from toolgate_core.schema.preparation.contradictions import contradiction_in
from toolgate_core.schema.preparation.endless import without_endless
from toolgate_core.wire import GrammarVerdict, ResidualKeyword

from ..errors import BlobRejected, GrammarRefused, NotRepresentable
from ..tokens.call_form import CallForm
from . import blob
from .engines.choice import Choice, fallback_choices, make_choice, narrow_choices
from .engines.engine import CompiledGrammar, Engine, PackingEngine
from .engines.llguidance_engine import LLGuidanceEngine, make_tokenizer, tokenizer_text
from .instances.walk import InstanceWalker

if TYPE_CHECKING:
    from ..tokens.vocabulary import Vocabulary

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


@dataclass(frozen=True)
class RewrittenSchema:
    """A schema that was rewritten for its engine by an earlier compile."""

    schema: str
    """The rewritten schema, as JSON."""
    residual: tuple[ResidualKeyword, ...]


class Compiler:
    def __init__(
        self, form: CallForm, xgrammar_engine: PackingEngine, llguidance_engine: LLGuidanceEngine
    ) -> None:
        self._form = form
        self._xgrammar = xgrammar_engine
        self._llguidance = llguidance_engine
        self._engines: dict[str, Engine] = {
            "xgrammar": xgrammar_engine,
            "llguidance": llguidance_engine,
        }

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
        self._llguidance.prepare_custom(self._form)
        if isinstance(self._form.codec, Json):
            for engine in self._engines.values():
                engine.compile(self._form, "common", COMMON_SCHEMA)
            return
        for engine in self._engines.values():
            engine.compile(self._form, grammar_key.CONTENT, COMMON_SCHEMA)
        self._llguidance.compile_arguments(self._form, "common", COMMON_SCHEMA, COMMON_SCHEMA)

    def compile(
        self, key: str, name: str, parameters: str, rewritten: RewrittenSchema | None = None
    ) -> CompileResult:
        """`parameters` is canonical JSON. `compile_ms` is the processor time of this thread."""
        started = time.thread_time()
        fields, grammar = self._compile_or_refuse(name, parameters, rewritten)
        fields["compile_ms"] = (time.thread_time() - started) * 1e3
        return CompileResult(GrammarVerdict(key=key, **fields), grammar)

    def load(
        self, key: str, packed: str, parameters: str, rewritten: RewrittenSchema | None = None
    ) -> CompileResult:
        """Load a grammar from a blob. The verdict equals that of a compile. Raises BlobRejected."""
        schema, narrow = _parsed(parameters)
        if TEXT in schema or grammar_of(schema) is not None:
            raise BlobRejected("the blob is for a grammar of text, which xgrammar does not compile")
        choice = next(self._choices(grammar_key.CONTENT, schema, narrow, rewritten))
        if choice.engine != "xgrammar":
            raise BlobRejected("the blob is for a schema that xgrammar does not compile")
        started = time.thread_time()
        grammar = self._xgrammar.deserialize(blob.unpack(key, packed), choice.schema)
        load_ms = (time.thread_time() - started) * 1e3
        return CompileResult(
            GrammarVerdict(key=key, load_ms=load_ms, **_ready_fields(choice, parameters)), grammar
        )

    def size(self, grammar: CompiledGrammar) -> int:
        """Size in memory in bytes; 0 if the engine compiles lazily."""
        return self._xgrammar.size(grammar)

    def pack(self, key: str, grammar: CompiledGrammar) -> str | None:
        """The grammar's blob; None if it has no serial form or is too large."""
        if self.size(grammar) > MAX_PACKED_BYTES:
            return None
        serialized = self._xgrammar.serialize(grammar)
        return None if serialized is None else blob.pack(key, serialized)

    def instance_walker(self) -> InstanceWalker | None:
        """None if the arguments are not JSON."""
        if not isinstance(self._form.codec, Json):
            return None
        return InstanceWalker(self._form, self._llguidance, self._xgrammar.token_bytes)

    def _compile_or_refuse(
        self, name: str, parameters: str, rewritten: RewrittenSchema | None
    ) -> tuple[dict[str, Any], CompiledGrammar | None]:
        """The fields of the verdict, and the grammar if the verdict is `ready`."""
        refusal: dict[str, Any] = {"status": "refused", "code": SchemaNotEnforceable.code}
        try:
            schema, narrow = _parsed(parameters)
            if (grammar := grammar_of(schema)) is not None:
                choice = Choice("llguidance", "a grammar of text", schema)
                compiled = self._llguidance.compile_custom(self._form, name, grammar)
            elif name == grammar_key.CONTENT and TEXT in schema:
                choice, compiled = self._compile_text(schema)
            else:
                if rewritten is None:
                    schema = without_endless(schema)
                    if (found := contradiction_in(schema)) is not None:
                        raise GrammarRefused(found.reason, found.pointer)
                choices = self._choices(name, schema, narrow, rewritten)
                choice, compiled = self._first_compilable(name, schema, choices)
        except GrammarRefused as refused:
            reason = _clean_reason(refused.reason)
            return refusal | {"reason": reason, "pointer": refused.pointer}, None
        except SchemaNotEnforceable as error:
            reason = _clean_reason(error.message)
            return refusal | {"reason": reason, "pointer": error.pointer}, None
        except (MemoryError, KeyboardInterrupt, SystemExit):
            raise  # a resource limit or a signal to this process is no verdict on the schema
        except BaseException as error:  # noqa: BLE001 - a panic in Rust is no Exception
            reason = f"not a valid JSON Schema ({type(error).__name__}: {error})"
            return refusal | {"reason": _clean_reason(reason), "pointer": ""}, None
        ready = _ready_fields(choice, parameters)
        if self.size(compiled) > MAX_GRAMMAR_BYTES:
            reason = f"the compiled grammar takes more than {MAX_GRAMMAR_BYTES // 2**20} MB"
        elif len(ready["rewritten"] or "") > MAX_REWRITTEN:
            reason = f"its rewritten form has more than {MAX_REWRITTEN:,} characters"
        else:
            return ready, compiled
        return refusal | {"code": SchemaTooComplex.code, "reason": reason, "pointer": ""}, None

    def _compile_text(self, schema: dict[str, Any]) -> tuple[Choice, CompiledGrammar]:
        choice = Choice("llguidance", "a text format, not JSON", schema)
        return choice, self._llguidance.compile_text(schema[TEXT])

    def _first_compilable(
        self, name: str, parameters: dict[str, Any], candidates: Iterator[Choice]
    ) -> tuple[Choice, CompiledGrammar]:
        """The first choice that its engine compiles. If there is none, or if even a looser schema
        is unsatisfiable, the first choice's GrammarRefused is raised."""
        first: GrammarRefused | None = None
        is_json = isinstance(self._form.codec_of(name), Json)
        for choice in candidates:
            try:
                if not is_json:
                    return self._compile_arguments(name, parameters, choice)
                engine = self._engines[choice.engine]
                return choice, engine.compile(self._form, name, choice.schema)
            except NotRepresentable:
                raise
            except GrammarRefused as refused:
                is_looser = first is not None and not choice.as_given
                if is_looser and UNSATISFIABLE in refused.reason:
                    break
                first = first or refused
        assert first is not None
        raise first

    def _choices(
        self, name: str, schema: dict[str, Any], narrow: bool, rewritten: RewrittenSchema | None
    ) -> Iterator[Choice]:
        if rewritten is None:
            compiles = partial(self._compiles, name, schema)
            return (narrow_choices if narrow else fallback_choices)(schema, compiles)
        return iter([make_choice(json.loads(rewritten.schema), rewritten.residual)])

    def _compiles(self, name: str, parameters: dict[str, Any], schema: dict[str, Any]) -> bool:
        """Whether llguidance compiles a prepared schema of a tool."""
        try:
            if isinstance(self._form.codec_of(name), Json):
                self._llguidance.compile(self._form, name, schema)
            else:
                self._llguidance.compile_arguments(self._form, name, schema, parameters)
        except GrammarRefused:
            return False
        return True

    def _compile_arguments(
        self, name: str, parameters: dict[str, Any], choice: Choice
    ) -> tuple[Choice, CompiledGrammar]:
        """Compile arguments that are not JSON. Only llguidance can."""
        grammar, residual = self._llguidance.compile_arguments(
            self._form, name, choice.schema, parameters
        )
        residual = tuple(dict.fromkeys((*choice.residual, *residual)))
        reason = "the arguments are not JSON"
        return Choice("llguidance", reason, choice.schema, residual), grammar


def _parsed(parameters: str) -> tuple[dict[str, Any], bool]:
    """The schema, and whether a narrower one is wanted."""
    schema = json.loads(parameters)
    return schema, schema.pop(NARROW, False) is True


def _ready_fields(choice: Choice, parameters: str) -> dict[str, Any]:
    """The fields of a `ready` verdict."""
    text = canonical_json(choice.schema)
    return {
        "status": "ready",
        "engine": choice.engine,
        "reason": _clean_reason(choice.reason),
        "residual": choice.residual,
        "rewritten": None if text == parameters else text,
    }


def _clean_reason(reason: str) -> str:
    """Limit a message's length and make it valid UTF-8: it may quote a lone surrogate of the
    schema."""
    return reason[:MAX_REASON_LENGTH].encode(errors="replace").decode()
