"""choose → compile, with whatever a schema breaks turned into a verdict on it.

The same in the engine's workers and in the quarantine, so that both come to the same verdict. What
a schema has to be rewritten for is done in the quarantine only: workers get it `Rewritten`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import xgrammar

from toolgate_core import grammar_key
from toolgate_core.dialect import DIALECTS, Dialect
from toolgate_core.errors import SchemaNotEnforceable, SchemaTooComplex
from toolgate_core.grammar_key import canonical_json
from toolgate_core.wire import GrammarVerdict, ResidualKeyword

from ..errors import BlobRejected, GrammarRefused
from ..vocabulary import Vocabulary
from . import blob
from .completion import Completion
from .engines.choice import Choice, choices, chosen
from .engines.engine import CompiledGrammar, Engine
from .engines.llguidance_engine import LLGuidanceEngine, make_tokenizer, tokenizer_text
from .engines.xgrammar_engine import XGrammarEngine
from .satisfiability import find_endless

MAX_GRAMMAR_BYTES = 64 * 2**20
"""Of one compiled grammar, which the engine keeps. The largest of 1,881 real ones takes 0.6 MB."""
MAX_PACKED_BYTES = 4 * 2**20
"""Compiled grammars beyond it get no blob: writing one down takes a hundred times its memory."""
NICENESS = 10
"""A compile gives way to the engine's steps, which may share its cores, here and in quarantine."""
REASON_LENGTH = 300
UNSATISFIABLE = "Unsatisfiable schema"
"""How llguidance says that nothing satisfies a schema."""

COMMON: dict[str, Any] = {
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
"""What nearly every tool is made of. Compiled at start: the masks of a JSON string alone are ten
times the cost of the rest of a usual tool, and xgrammar's compiler shares them."""


@dataclass(frozen=True)
class Setup:
    """All that a process without vLLM needs to compile as the engine's workers do."""

    tokenizer_info: str
    """xgrammar's, serialised."""
    tokenizer: str
    """The tokenizers library's JSON."""
    vocabulary_size: int
    special: list[int]
    end: int
    dialect: str

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> Setup:
        return cls(
            tokenizer_info=vocabulary.info.serialize_json(),
            tokenizer=tokenizer_text(vocabulary.tokenizer),
            vocabulary_size=vocabulary.size,
            special=sorted(vocabulary.special),
            end=vocabulary.tokenizer.eos_token_id,
            dialect=vocabulary.dialect.name,
        )

    def compiler(self, *, cache_bytes: int) -> Compiler:
        tokenizer = make_tokenizer(self.tokenizer, size=self.vocabulary_size, end=self.end)
        return Compiler(
            DIALECTS[self.dialect],
            XGrammarEngine(self._info, cache_bytes=cache_bytes),
            LLGuidanceEngine(tokenizer),
        )

    def completion(self) -> Completion:
        return Completion(self._info.decoded_vocab, frozenset(self.special))

    @cached_property
    def _info(self) -> Any:
        """Read once: some megabytes of JSON."""
        return xgrammar.TokenizerInfo.deserialize_json(self.tokenizer_info)


@dataclass(frozen=True)
class Outcome:
    verdict: GrammarVerdict
    grammar: CompiledGrammar | None
    """Of a `ready` verdict."""


@dataclass(frozen=True)
class Rewritten:
    """What `choose` made of a schema before."""

    schema: str
    """JSON."""
    residual: tuple[ResidualKeyword, ...]

    @classmethod
    def of(cls, schema: str | None, residual: tuple[ResidualKeyword, ...]) -> Rewritten | None:
        return None if schema is None else cls(schema, residual)


class Compiler:
    def __init__(
        self, dialect: Dialect, xgrammar_engine: XGrammarEngine, llguidance_engine: LLGuidanceEngine
    ) -> None:
        self._dialect = dialect
        self._xgrammar = xgrammar_engine
        self._llguidance = llguidance_engine
        self._engines: dict[str, Engine] = {
            "xgrammar": xgrammar_engine,
            "llguidance": llguidance_engine,
        }

    @classmethod
    def of(cls, vocabulary: Vocabulary, *, cache_bytes: int) -> Compiler:
        tokenizer = make_tokenizer(
            tokenizer_text(vocabulary.tokenizer),
            size=vocabulary.size,
            end=vocabulary.tokenizer.eos_token_id,
        )
        return cls(
            vocabulary.dialect,
            XGrammarEngine(vocabulary.info, cache_bytes=cache_bytes),
            LLGuidanceEngine(tokenizer),
        )

    def prime(self) -> None:
        """Compile what nearly all tools share, so that the first of them need not wait for it."""
        for engine in self._engines.values():
            engine.compile(self._dialect, "prime", COMMON)

    def compile(
        self, key: str, name: str, parameters: str, rewritten: Rewritten | None = None
    ) -> Outcome:
        """`parameters` is canonical JSON. `compile_ms` is the processor's time in this thread."""
        began = time.thread_time()
        fields, grammar = self._try(name, parameters, rewritten)
        fields["compile_ms"] = (time.thread_time() - began) * 1e3
        return Outcome(GrammarVerdict(key=key, **fields), grammar)

    def load(
        self, key: str, packed: str, parameters: str, rewritten: Rewritten | None = None
    ) -> Outcome:
        """From a blob. Raises BlobRejected; the verdict is the one a compile would have given."""
        schema = json.loads(parameters)
        if grammar_key.TEXT in schema:
            raise BlobRejected("a blob for a text that xgrammar does not take")
        choice = next(_choices(schema, rewritten))
        if choice.engine != "xgrammar":
            raise BlobRejected("a blob for a schema that xgrammar does not take")
        began = time.thread_time()
        grammar = self._xgrammar.deserialize(blob.unpack(key, packed))
        load_ms = (time.thread_time() - began) * 1e3
        return Outcome(
            GrammarVerdict(key=key, load_ms=load_ms, **_ready(choice, parameters)), grammar
        )

    def pack(self, key: str, grammar: CompiledGrammar) -> str | None:
        """The grammar's blob; None for one that has no serial form or too large a one."""
        if self._xgrammar.size(grammar) > MAX_PACKED_BYTES:
            return None
        serialized = self._xgrammar.serialize(grammar)
        return None if serialized is None else blob.pack(key, serialized)

    def _try(
        self, name: str, parameters: str, rewritten: Rewritten | None
    ) -> tuple[dict[str, Any], CompiledGrammar | None]:
        """The fields of the verdict, and the grammar when it is `ready`."""
        refusal: dict[str, Any] = {"status": "refused", "code": SchemaNotEnforceable.code}
        try:
            schema = json.loads(parameters)
            if name == grammar_key.CONTENT and grammar_key.TEXT in schema:
                choice, compiled = self._text(schema)
            elif rewritten is None and (endless := find_endless(schema)) is not None:
                raise GrammarRefused("no finite value satisfies it", endless)
            else:
                choice, compiled = self._first_held(name, _choices(schema, rewritten))
        except GrammarRefused as refused:
            return refusal | {"reason": _text(refused.reason), "pointer": refused.pointer}, None
        except SchemaNotEnforceable as error:
            return refusal | {"reason": _text(error.message), "pointer": error.pointer}, None
        except MemoryError:
            raise  # what a limit says is not what the schema says
        except BaseException as error:  # noqa: BLE001 - a panic in Rust is no Exception; who asked gets a verdict
            reason = f"not a valid JSON Schema ({type(error).__name__}: {error})"
            return refusal | {"reason": _text(reason), "pointer": ""}, None
        if self._xgrammar.size(compiled) > MAX_GRAMMAR_BYTES:
            reason = f"compiled it takes more than {MAX_GRAMMAR_BYTES // 2**20} MB"
            return refusal | {"code": SchemaTooComplex.code, "reason": reason, "pointer": ""}, None
        return _ready(choice, parameters), compiled

    def _text(self, schema: dict[str, Any]) -> tuple[Choice, CompiledGrammar]:
        choice = Choice("llguidance", "a text that is no JSON", schema)
        return choice, self._llguidance.compile_text(schema[grammar_key.TEXT])

    def _first_held(self, name: str, choices_: Iterator[Choice]) -> tuple[Choice, CompiledGrammar]:
        """The first choice that its engine takes. Raises the first one's GrammarRefused when none
        is taken, or when nothing satisfies even a looser one."""
        first: GrammarRefused | None = None
        for choice in choices_:
            try:
                engine = self._engines[choice.engine]
                return choice, engine.compile(self._dialect, name, choice.schema)
            except GrammarRefused as refused:
                if first is not None and UNSATISFIABLE in refused.reason:
                    break
                first = first or refused
        assert first is not None
        raise first


def _choices(schema: dict[str, Any], rewritten: Rewritten | None) -> Iterator[Choice]:
    if rewritten is None:
        return choices(schema)
    return iter([chosen(json.loads(rewritten.schema), rewritten.residual)])


def _ready(choice: Choice, parameters: str) -> dict[str, Any]:
    """The fields of a verdict."""
    text = canonical_json(choice.schema)
    return {
        "status": "ready",
        "engine": choice.engine,
        "reason": _text(choice.reason),
        "residual": choice.residual,
        "rewritten": None if text == parameters else text,
    }


def _text(reason: str) -> str:
    """Fit for the wire: a message may quote half of a surrogate pair out of the schema."""
    return reason[:REASON_LENGTH].encode(errors="replace").decode()
