"""The masks of three engines for one schema, behind one interface.

`toolgate` compiles as the backend does, with the engine of choice and the text of the call around
the arguments. `xgrammar` and `llguidance` get the schema as it is, with the options that vLLM 0.32
sets for structured output by default, which allow any white space.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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
from toolgate_core.dialects.marks import special_tokens
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


@dataclass(frozen=True)
class Walk:
    """One text under the masks."""

    engines: Engines
    accept: Callable[[int], bool]
    complete: Callable[[], bool]
    fill: Callable[[np.ndarray], object]

    def allowed(self) -> np.ndarray:
        """The ids of the tokens that may follow, without special tokens."""
        engines = self.engines
        row = np.zeros(masks.words_per_row(engines.vocabulary.size), dtype=np.int32)
        self.fill(row)
        return np.setdiff1d(masks.unpack(row), engines.special)


@dataclass(frozen=True)
class Masks:
    engine: str
    """The grammar engine inside."""
    start: Callable[[], Walk]
    residual: bool = False
    """Whether some keywords are left to validation."""
    before: str = ""
    after: str = ""
    ordering: dict[str, Any] | None = None
    """The schema that gives the order of members, if it is not the given one."""


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
        self.special = np.array(sorted(vocabulary.special))

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
            return Masks(
                outcome.verdict.engine or "",
                lambda: self._own_walk(grammar.matcher()),
                bool(outcome.verdict.residual),
                before,
                after,
                json.loads(rewritten) if rewritten else canonical,
            )
        text = json.dumps(schema)
        if engine == "xgrammar":
            try:
                compiled = self._xgrammar.compile_json_schema(text)
            except RuntimeError as error:
                raise Refused(str(error)[:200]) from error
            return Masks(engine, lambda: self._xgrammar_walk(xgrammar.GrammarMatcher(compiled)))
        source = llguidance.LLMatcher.grammar_from_json_schema(
            text, defaults={"whitespace_flexible": True}
        )
        fresh = llguidance.LLMatcher(self._tokenizer, source, log_level=0)
        if fresh.is_error():
            raise Refused(fresh.get_error()[:200])
        return Masks(engine, lambda: self._llguidance_walk(fresh.deep_copy()))

    def _own_walk(self, matcher: Matcher) -> Walk:
        return Walk(self, matcher.accept, lambda: matcher.finished, matcher.fill)

    def _xgrammar_walk(self, matcher: Any) -> Walk:
        def fill(row: np.ndarray) -> None:
            matcher.fill_next_token_bitmask(row.reshape(1, -1))

        return Walk(self, matcher.accept_token, matcher.is_completed, fill)

    def _llguidance_walk(self, matcher: Any) -> Walk:
        def accept(token: int) -> bool:
            return not matcher.is_stopped() and matcher.try_consume_tokens([token]) == 1

        def fill(row: np.ndarray) -> None:
            llguidance.numpy.fill_next_token_bitmask(matcher, row.reshape(1, -1))

        return Walk(self, accept, matcher.is_accepting, fill)

    def encode(self, text: str) -> list[int]:
        """The tokens of a text; single bytes if the tokenizer would change it, as those do that
        normalise Unicode."""
        tokens = self.vocabulary.encode(text)
        data = text.encode()
        if b"".join(self.vocabulary.token_bytes[token] for token in tokens) == data:
            return list(tokens)
        return [self.byte_tokens[byte] for byte in data]


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
