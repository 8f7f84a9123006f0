"""The properties of a tokenizer that enforcement needs: bytes of the tokens, marks, end tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import xgrammar

from toolgate_core.dialect import Dialect, detect
from toolgate_core.wire import MarkIds


@dataclass(frozen=True)
class Vocabulary:
    tokenizer: Any
    """The transformers tokenizer, as loaded by vLLM."""
    info: xgrammar.TokenizerInfo
    token_bytes: list[bytes]
    """The bytes of each token id, one entry for each of the model's logits; empty for ids without
    text."""
    special: frozenset[int]
    """Added tokens and ids without text. They are never part of free text or of a grammar's
    text."""
    marks: MarkIds
    dialect: Dialect
    fingerprint: str

    @property
    def size(self) -> int:
        return len(self.token_bytes)

    def encode(self, text: str) -> tuple[int, ...]:
        """The token ids of `text`, without special tokens around them."""
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))


def from_model_config(model_config: Any) -> Vocabulary:
    """The vocabulary of a vLLM `ModelConfig`; identical in the API process and in the workers."""
    from vllm.tokenizers import cached_tokenizer_from_config

    tokenizer = cached_tokenizer_from_config(model_config)
    configured = model_config.try_get_generation_config().get("eos_token_id")
    ends = {tokenizer.eos_token_id}
    ends |= {configured} if isinstance(configured, int) else set(configured or ())
    ends.discard(None)
    return make_vocabulary(tokenizer, model_config.get_vocab_size(), ends)


def make_vocabulary(tokenizer: Any, size: int, end_ids: Iterable[int]) -> Vocabulary:
    """`size` is the width of the logits, which models pad beyond the tokenizer. `end_ids` are the
    ids at which vLLM stops; xgrammar detects only one of Qwen's two."""
    ends = tuple(sorted(end_ids))
    info = xgrammar.TokenizerInfo.from_huggingface(
        tokenizer, vocab_size=size, stop_token_ids=list(ends)
    )
    token_bytes = list(info.decoded_vocab)
    added = {i: t.content for i, t in tokenizer.added_tokens_decoder.items() if i < size}
    special = frozenset(added) | {i for i, text in enumerate(token_bytes) if not text} | {*ends}
    ids = {content: i for i, content in added.items()}
    dialect = detect(ids)
    return Vocabulary(
        tokenizer=tokenizer,
        info=info,
        token_bytes=token_bytes,
        special=special,
        marks=_marks(ids, dialect, ends),
        dialect=dialect,
        fingerprint=_fingerprint(token_bytes, special, ends),
    )


def _marks(ids: dict[str, int], dialect: Dialect, ends: tuple[int, ...]) -> MarkIds:
    taken = {ids[mark] for mark in dialect.marks} | {*ends}
    spare = iter(sorted(i for i in ids.values() if i not in taken))
    return MarkIds(
        call_begin=ids.get(dialect.call_begin),
        call_end=ids.get(dialect.call_end),
        reasoning_begin=ids.get(dialect.reasoning_begin or ""),
        reasoning_end=ids.get(dialect.reasoning_end or ""),
        end_of_turn=ends,
        failure=next(spare, None),
        closed=next(spare, None),
    )


def _fingerprint(token_bytes: list[bytes], special: frozenset[int], ends: tuple[int, ...]) -> str:
    digest = hashlib.sha256()
    for text in token_bytes:
        digest.update(len(text).to_bytes(4, "little") + text)
    digest.update(repr((sorted(special), ends)).encode())
    return digest.hexdigest()[:32]
