"""Walks the text of an instance through the masks of a tool's grammar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolgate_core.dialects.codecs import Json
from toolgate_core.wire import InstanceWalk

from ...tokens.call_form import CallForm
from ..engines.engine import CompiledGrammar
from ..engines.llguidance_engine import LLGuidanceEngine
from .causes import cause_of
from .forms import Form, Text


class InstanceWalker:
    """`token_bytes`: the bytes of each token."""

    def __init__(
        self, form: CallForm, tokenizer: LLGuidanceEngine, token_bytes: Sequence[bytes]
    ) -> None:
        self._form = form
        self._tokenizer = tokenizer
        self._token_bytes = token_bytes
        self._byte_tokens = {text[0]: at for at, text in enumerate(token_bytes) if len(text) == 1}

    def walk(
        self, grammar: CompiledGrammar, name: str, schema: dict[str, Any], value: Any
    ) -> InstanceWalk:
        """`schema` is the one that the engine was given. The arguments must be JSON."""
        codec = self._form.codec_of(name)
        assert isinstance(codec, Json)
        before, after = self._form.grammar_texts(name, schema)
        separators = (codec.item_separator, codec.key_separator)

        def refused_at(text: Text) -> int | None:
            return self._refused_at(grammar, before, text, after)

        cause = cause_of(value, Form("given", separators), schema, refused_at, separators)
        if cause is None:
            return InstanceWalk(accepted=True)
        rule = cause.keyword if cause.kind == "keyword" else cause.kind
        return InstanceWalk(accepted=False, pointer=cause.pointer, rule=rule)

    def _encode(self, text: str) -> list[int]:
        """The tokens of a text; single bytes if the tokenizer would change it, as those do that
        normalise Unicode."""
        tokens, data = self._tokenizer.encode(text), text.encode()
        if b"".join(self._token_bytes[token] for token in tokens) == data:
            return tokens
        return [self._byte_tokens[byte] for byte in data if byte in self._byte_tokens]

    def _refused_at(
        self, grammar: CompiledGrammar, before: str, text: Text, after: str
    ) -> int | None:
        """The first byte that is refused; None if the text is allowed."""
        try:
            whole = before + text.data.decode() + after
        except UnicodeDecodeError:  # a lone surrogate, which no token spells
            return 0
        matcher = grammar.matcher()
        last = max(0, len(text.data) - 1)
        offset = -len(before.encode())
        for token in self._encode(whole):
            spelled = self._token_bytes[token]
            if not matcher.accept(token):
                for byte in spelled:  # a refused token leaves the state unchanged
                    if byte not in self._byte_tokens or not matcher.accept(self._byte_tokens[byte]):
                        break
                    offset += 1
                return max(0, min(offset, last))
            offset += len(spelled)
        return None if matcher.complete else last
