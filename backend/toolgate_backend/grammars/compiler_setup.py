"""What a process without vLLM needs to compile as the engine's workers do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import xgrammar

from toolgate_core.dialects.registry import DIALECTS

from ..tokens.call_form import CallForm
from ..tokens.vocabulary import Vocabulary
from .compiler import Compiler
from .completions.codec_search import make_completion
from .completions.search import Completion
from .engines.llguidance_engine import LLGuidanceEngine, make_tokenizer, tokenizer_text
from .engines.xgrammar_engine import XGrammarEngine


@dataclass(frozen=True)
class CompilerSetup:
    tokenizer_info: str
    """xgrammar's tokenizer info, serialized."""
    tokenizer: str
    """The JSON of the tokenizers library."""
    vocabulary_size: int
    special: list[int]
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
            special=sorted(vocabulary.special),
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

    def completion(self) -> Completion:
        form = CallForm(DIALECTS[self.dialect], self.marks)
        return make_completion(form, self._info.decoded_vocab, frozenset(self.special))

    @cached_property
    def _info(self) -> Any:
        """Cached, because it parses several megabytes of JSON."""
        return xgrammar.TokenizerInfo.deserialize_json(self.tokenizer_info)
