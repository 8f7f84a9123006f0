"""Whether the grammar of a tool allows a value, by which a compiled grammar is read back
(read_back.py)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from ..tokens.call_form import CallForm
from .engines.engine import CompiledGrammar


class InstanceWalker:
    """`token_bytes`: the bytes of each token."""

    def __init__(
        self, form: CallForm, encode: Callable[[str], list[int]], token_bytes: Sequence[bytes]
    ) -> None:
        self._form = form
        self._tokens_of = encode
        self._token_bytes = token_bytes
        self._byte_tokens = {text[0]: at for at, text in enumerate(token_bytes) if len(text) == 1}

    def accepts(
        self, grammar: CompiledGrammar, name: str, schema: dict[str, Any], value: Any
    ) -> bool:
        """Return whether a grammar of JSON allows a value, with its members in this order."""
        codec = self._form.json_of(name)
        assert codec is not None
        before, after = self._form.grammar_texts(name, schema)
        text = _written(value, codec.item_separator, codec.key_separator)
        matcher = grammar.matcher()
        try:
            tokens = self._encode(before + text + after)
        except UnicodeEncodeError:  # a lone surrogate, which no token spells
            return False
        return all(matcher.accept(token) for token in tokens) and matcher.complete

    def _encode(self, text: str) -> list[int]:
        """Return the tokens of a text; single bytes if the tokenizer would change it, as those do
        that normalise Unicode."""
        data, tokens = text.encode(), self._tokens_of(text)
        if b"".join(self._token_bytes[token] for token in tokens) == data:
            return tokens
        return [self._byte_tokens[byte] for byte in data if byte in self._byte_tokens]


def _written(value: Any, comma: str, colon: str) -> str:
    """Return a value as JSON, with numbers without exponents and without `.0`."""
    if isinstance(value, dict):
        members = (
            json.dumps(name, ensure_ascii=False) + colon + _written(member, comma, colon)
            for name, member in value.items()
        )
        return f"{{{comma.join(members)}}}"
    if isinstance(value, list):
        return f"[{comma.join(_written(item, comma, colon) for item in value)}]"
    if isinstance(value, float):
        return format(Decimal(repr(value)).normalize(), "f")
    return json.dumps(value, ensure_ascii=False)
