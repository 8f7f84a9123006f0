"""The properties of a tokenizer that enforcement needs: bytes of the tokens, marks, end tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import xgrammar

from toolgate_core.dialects.dialect import Dialect
from toolgate_core.dialects.marks import marks_in
from toolgate_core.dialects.registry import DIALECTS, RecognisedDialect, recognise
from toolgate_core.host_probe import optional
from toolgate_core.wire import MarkIds

from ..errors import IncompatibleServer
from ..settings import settings
from .call_form import CallForm, CallTokens
from .units import unit_bytes, unit_tokens


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
    content_ends: frozenset[int] = frozenset()
    """The tokens that end the turn after content."""
    call_ends: frozenset[int] = frozenset()
    """The tokens that end the turn after calls."""
    added_ends: frozenset[int] = frozenset()
    """The dialect's end-of-turn tokens at which vLLM does not stop by itself."""
    recognised: RecognisedDialect | None = None
    """How the dialect was chosen; None if the caller chose it."""

    @property
    def size(self) -> int:
        return len(self.token_bytes)

    @cached_property
    def form(self) -> CallForm:
        """The form of the dialect's calls with this tokenizer."""
        return CallForm(self.dialect, self.marks.tokens)

    @cached_property
    def call_tokens(self) -> CallTokens:
        """The numbers of tokens of the dialect's texts."""
        return CallTokens(self.dialect, self.form, self.literal_tokens)

    @cached_property
    def unit_bytes(self) -> list[bytes]:
        """As `token_bytes`, but marks are units (units.py)."""
        return unit_bytes(self.token_bytes, self.marks.tokens.values())

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the token ids of `text`, without special tokens around them."""
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    def literal_tokens(self, encoded: str) -> tuple[int, ...]:
        """Return the token ids of a text of the dialect, encoded by `Marks.encode`."""
        return unit_tokens(encoded, self.form.marks, self.encode)


def from_model_config(model_config: Any) -> Vocabulary:
    """Return the vocabulary of a vLLM `ModelConfig`; identical in the API process and in the
    workers."""
    from vllm.tokenizers import cached_tokenizer_from_config

    tokenizer = cached_tokenizer_from_config(model_config)
    configured = model_config.try_get_generation_config().get("eos_token_id")
    ends = {tokenizer.eos_token_id}
    ends |= {configured} if isinstance(configured, int) else set(configured or ())
    ends.discard(None)
    dialect = _configured_dialect(settings().dialect)
    return make_vocabulary(tokenizer, model_config.get_vocab_size(), ends, dialect)


def _configured_dialect(name: str) -> Dialect | None:
    """Return the dialect of TOOLGATE_DIALECT; None if it is to be recognised."""
    if name == "auto":
        return None
    if name not in DIALECTS:
        raise IncompatibleServer(
            f"TOOLGATE_DIALECT is {name[:60]!r}, which is no dialect. Set it to `auto` or to one "
            f"of: {', '.join(sorted(DIALECTS))}."
        )
    return DIALECTS[name]


def make_vocabulary(
    tokenizer: Any, size: int, end_ids: Iterable[int], dialect: Dialect | None = None
) -> Vocabulary:
    """`size` is the width of the logits, which models pad beyond the tokenizer. `end_ids` are the
    ids at which vLLM stops; xgrammar detects only one of Qwen's two."""
    configured = {*end_ids}
    ends = tuple(sorted(configured))
    info = xgrammar.TokenizerInfo.from_huggingface(
        tokenizer, vocab_size=size, stop_token_ids=list(ends)
    )
    token_bytes = list(info.decoded_vocab)
    added = {i: t.content for i, t in tokenizer.added_tokens_decoder.items() if i < size}
    special = frozenset(added) | {i for i, text in enumerate(token_bytes) if not text} | {*ends}
    ids = {content: i for i, content in added.items()}
    recognised = None if dialect else recognise(ids, _chat_template(tokenizer))
    dialect = recognised.dialect if recognised else dialect
    assert dialect is not None
    after_calls = _ids(dialect.calls.ends if dialect.calls else (), ids)
    after_content = _ids(dialect.ends_after_content, ids)
    ends = tuple(sorted(configured | after_calls | after_content))
    return Vocabulary(
        tokenizer=tokenizer,
        info=info,
        token_bytes=token_bytes,
        special=special,
        marks=_marks(ids, dialect, ends),
        dialect=dialect,
        fingerprint=_fingerprint(token_bytes, special, ends),
        content_ends=after_content or frozenset(configured),
        call_ends=after_calls or frozenset(configured),
        added_ends=(after_calls | after_content) - configured,
        recognised=recognised,
    )


def _chat_template(tokenizer: Any) -> str | None:
    """Return the text of the chat template, of all of them if there are several by name."""
    template = optional(tokenizer, "chat_template")
    if isinstance(template, dict):
        return "\n".join(map(str, template.values()))
    return template if isinstance(template, str) else None


def _ids(texts: Iterable[str], ids: dict[str, int]) -> frozenset[int]:
    return frozenset(ids[text] for text in texts if text in ids)


def _marks(ids: dict[str, int], dialect: Dialect, ends: tuple[int, ...]) -> MarkIds:
    tokens = {text: ids[text] for text in marks_in(dialect.literals, ids)}
    taken = {*tokens.values(), *ends}
    spare = iter(sorted(i for i in ids.values() if i not in taken))
    return MarkIds(
        tokens=tokens,
        end_of_turn=ends,
        failure=next(spare, None),
        cut=next(spare, None),
    )


def _fingerprint(token_bytes: list[bytes], special: frozenset[int], ends: tuple[int, ...]) -> str:
    digest = hashlib.sha256()
    for text in token_bytes:
        digest.update(len(text).to_bytes(4, "little") + text)
    digest.update(repr((sorted(special), ends)).encode())
    return digest.hexdigest()[:32]
