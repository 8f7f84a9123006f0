"""Marks: special tokens of a tokenizer that occur in the texts of a dialect.

Marks are compared by token id, so text that looks like a mark stays text. To handle literals and
output as strings nevertheless, each mark is represented as one lone surrogate, which decoded text
never contains.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

FIRST_SURROGATE = 0xD800


class Marks:
    """The marks of one dialect and tokenizer. `tokens` maps the text of each mark to its id."""

    def __init__(self, tokens: Mapping[str, int]) -> None:
        texts = sorted(tokens, key=lambda text: (-len(text), text))
        self._tokens = dict(tokens)
        self._symbols = {text: chr(FIRST_SURROGATE + at) for at, text in enumerate(texts)}
        self._texts = {symbol: text for text, symbol in self._symbols.items()}
        self.symbol_of_token = {tokens[text]: self._symbols[text] for text in texts}
        """By token id: the surrogate that represents the mark."""
        self._pattern = re.compile("|".join(map(re.escape, texts))) if texts else None

    def encode(self, literal: str) -> str:
        """A literal of the dialect with each mark replaced by its surrogate; longest mark first."""
        if self._pattern is None:
            return literal
        return self._pattern.sub(lambda found: self._symbols[found.group()], literal)

    def decode(self, encoded: str) -> str:
        """The text of `encoded`, with each surrogate replaced by the mark's text."""
        return "".join(self._texts.get(char, char) for char in encoded)

    def token(self, symbol: str) -> int:
        """The token id of a surrogate."""
        return self._tokens[self._texts[symbol]]

    def is_mark(self, char: str) -> bool:
        return char in self._texts


def marks_in(literals: Iterable[str], added_tokens: Iterable[str]) -> frozenset[str]:
    """The added tokens of a tokenizer that occur in the literals of a dialect. A literal is split
    as the tokenizer splits it: at the longest added token, from the left."""
    texts = sorted({token for token in added_tokens if token}, key=lambda text: (-len(text), text))
    if not texts:
        return frozenset()
    pattern = re.compile("|".join(map(re.escape, texts)))
    return frozenset(found for literal in literals for found in pattern.findall(literal))
