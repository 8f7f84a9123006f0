"""The masks of three engines for one schema, behind one interface.

`toolgate` compiles as the backend does, with the engine of choice and the text of the call around
the arguments. `xgrammar` and `llguidance` get the schema as it is, with the options that vLLM 0.32
sets for structured output by default, which allow any white space.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import llguidance
import llguidance.numpy
import numpy as np
import xgrammar
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from toolgate_backend.grammars.compiler import Compiler
from toolgate_backend.grammars.engines.engine import Matcher
from toolgate_backend.grammars.engines.llguidance_engine import make_tokenizer, tokenizer_text
from toolgate_backend.tokens import masks
from toolgate_backend.tokens.vocabulary import Vocabulary, make_vocabulary
from toolgate_core.dialects.mark_texts import special_tokens
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.schema.canonical import canonical_json
from toolgate_core.schema.closed_objects import with_open_objects

OPEN = "toolgate, open objects"
"""Toolgate with TOOLGATE_OPEN_OBJECTS=1."""
ENGINES = ("toolgate", OPEN, "xgrammar", "llguidance")
TOOL = "t"
DIALECT = "qwen3"
END = "<|im_end|>"


class Refused(Exception):
    """The engine does not compile the schema."""


class Walk(Protocol):
    """One text under the masks."""

    def accept(self, token: int) -> bool: ...

    def allowed(self) -> np.ndarray:
        """The ids of the tokens that may follow, without special tokens."""
        ...

    def complete(self) -> bool: ...


class Masks(Protocol):
    engine: str
    """The grammar engine inside."""
    residual: bool
    """Whether some keywords are left to validation."""
    before: str
    after: str
    ordering: dict[str, Any] | None
    """The schema that gives the order of members, if it is not the given one."""

    def start(self) -> Walk: ...


@dataclass
class Engines:
    """The engines with one vocabulary."""

    vocabulary: Vocabulary

    def __post_init__(self) -> None:
        vocabulary = self.vocabulary
        self._own = Compiler.from_vocabulary(vocabulary, cache_bytes=2**28)
        self._own.warm_cache()
        self._xgrammar = xgrammar.GrammarCompiler(
            vocabulary.info, max_threads=1, cache_limit_bytes=2**28
        )
        self._xgrammar.compile_json_schema('{"type":"string"}')
        self._tokenizer = make_tokenizer(
            tokenizer_text(vocabulary.tokenizer),
            size=vocabulary.size,
            end=vocabulary.tokenizer.eos_token_id,
        )
        self.byte_tokens = {
            text[0]: at
            for at, text in enumerate(vocabulary.token_bytes)
            if len(text) == 1 and at not in vocabulary.special
        }
        """The token of each single byte."""
        self._special = np.array(sorted(vocabulary.special))

    def masks(self, engine: str, schema: Any, canonical: dict[str, Any]) -> Masks:
        """Raises Refused."""
        if engine in ("toolgate", OPEN):
            if engine == OPEN:
                canonical = with_open_objects(canonical)
            outcome = self._own.compile("key", TOOL, canonical_json(canonical))
            grammar = outcome.grammar
            if grammar is None:
                raise Refused(outcome.verdict.reason or "")
            rewritten = outcome.verdict.rewritten
            before, after = self.vocabulary.form.grammar_texts(TOOL, canonical)
            return _Masks(
                outcome.verdict.engine or "",
                bool(outcome.verdict.residual),
                before,
                after,
                json.loads(rewritten) if rewritten else canonical,
                lambda: _OwnWalk(self, grammar.matcher()),
            )
        text = json.dumps(schema)
        if engine == "xgrammar":
            try:
                compiled = self._xgrammar.compile_json_schema(text)
            except RuntimeError as error:
                raise Refused(str(error)[:200]) from error
            return _Masks(engine, False, "", "", None, lambda: _XGrammarWalk(self, compiled))
        source = llguidance.LLMatcher.grammar_from_json_schema(
            text, defaults={"whitespace_flexible": True}
        )
        fresh = llguidance.LLMatcher(self._tokenizer, source, log_level=0)
        if fresh.is_error():
            raise Refused(fresh.get_error()[:200])
        return _Masks(engine, False, "", "", None, lambda: _LLGuidanceWalk(self, fresh.deep_copy()))

    def encode(self, text: str) -> list[int]:
        """The tokens of a text; single bytes if the tokenizer would change it, as those do that
        normalise Unicode."""
        tokens = self.vocabulary.encode(text)
        data = text.encode()
        if b"".join(self.vocabulary.token_bytes[token] for token in tokens) == data:
            return list(tokens)
        return [self.byte_tokens[byte] for byte in data]

    def unpack(self, row: np.ndarray) -> np.ndarray:
        return np.setdiff1d(masks.unpack(row), self._special)

    def row(self) -> np.ndarray:
        return np.zeros(masks.words_per_row(self.vocabulary.size), dtype=np.int32)


@dataclass
class _Masks:
    engine: str
    residual: bool
    before: str
    after: str
    ordering: dict[str, Any] | None
    _start: Callable[[], Walk]

    def start(self) -> Walk:
        return self._start()


class _OwnWalk:
    def __init__(self, engines: Engines, matcher: Matcher) -> None:
        self._engines = engines
        self._matcher = matcher

    def accept(self, token: int) -> bool:
        return self._matcher.accept(token)

    def allowed(self) -> np.ndarray:
        row = self._engines.row()
        self._matcher.fill(row)
        return self._engines.unpack(row)

    def complete(self) -> bool:
        return self._matcher.finished


class _XGrammarWalk:
    def __init__(self, engines: Engines, compiled: xgrammar.CompiledGrammar) -> None:
        self._engines = engines
        self._matcher = xgrammar.GrammarMatcher(compiled)

    def accept(self, token: int) -> bool:
        return bool(self._matcher.accept_token(token))

    def allowed(self) -> np.ndarray:
        row = self._engines.row()
        self._matcher.fill_next_token_bitmask(row.reshape(1, -1))
        return self._engines.unpack(row)

    def complete(self) -> bool:
        return bool(self._matcher.is_completed())


class _LLGuidanceWalk:
    def __init__(self, engines: Engines, matcher: llguidance.LLMatcher) -> None:
        self._engines = engines
        self._matcher = matcher

    def accept(self, token: int) -> bool:
        if self._matcher.is_stopped():
            return False
        return bool(self._matcher.try_consume_tokens([token]) == 1)

    def allowed(self) -> np.ndarray:
        row = self._engines.row()
        llguidance.numpy.fill_next_token_bitmask(self._matcher, row.reshape(1, -1))
        return self._engines.unpack(row)

    def complete(self) -> bool:
        return bool(self._matcher.is_accepting())


def bytes_vocabulary() -> Vocabulary:
    """256 tokens of one byte each, and the special tokens of the dialect."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    whole = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    whole.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    whole.decoder = decoders.ByteLevel()
    dialect = DIALECTS[DIALECT]
    marks = dict.fromkeys([*special_tokens(dialect), END])
    whole.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in marks])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=whole, eos_token=END)
    size = (len(tokenizer) + 31) // 32 * 32
    return make_vocabulary(tokenizer, size, [tokenizer.eos_token_id], dialect)
