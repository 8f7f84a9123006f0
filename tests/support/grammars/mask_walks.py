"""Random walks over a grammar's masks: the text that comes of taking any allowed token."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from toolgate_backend.tokens import masks
from toolgate_backend.tokens.masks import words_per_row
from toolgate_backend.tokens.vocabulary import Vocabulary

CLOSERS = b'"}],'
"""What brings a text to its end: without a liking for these, a walk hardly ever gets there."""


class Walker:
    def __init__(self, vocabulary: Vocabulary, name: str = "t") -> None:
        self._vocabulary = vocabulary
        self._before, self._after = vocabulary.form.grammar_texts(name)
        head = vocabulary.encode(self._before)
        self._head = head
        width = words_per_row(vocabulary.size) * 32
        self._is_closer, self._is_ordinary = np.zeros(width, dtype=bool), np.ones(width, dtype=bool)
        for token, text in enumerate(vocabulary.token_bytes):
            self._is_closer[token] = bool(text) and set(text) <= set(CLOSERS)
        self._is_ordinary[sorted(vocabulary.special)] = False

    def walk(self, grammar: Any, seed: int, limit: int = 120) -> str | None:
        """The arguments' text; None when `limit` tokens did not bring it to an end. Raises
        AssertionError at a dead end."""
        dice = random.Random(seed)
        matcher = grammar.matcher()
        assert all(matcher.accept(token) for token in self._head)
        tokens = [*self._head]
        row = np.zeros(words_per_row(self._vocabulary.size), dtype=np.int32)
        for _ in range(limit):
            if matcher.finished:
                text = b"".join(self._vocabulary.token_bytes[t] for t in tokens).decode()
                return text[len(self._before) : len(text) - len(self._after)]
            matcher.fill(row)
            allowed = masks.unpack(row)
            allowed = allowed[self._is_ordinary[allowed]]
            assert allowed.size, "nothing may follow"
            closing = allowed[self._is_closer[allowed]]
            some = closing if closing.size and dice.random() < 0.6 else allowed
            token = int(some[dice.randrange(some.size)])
            assert matcher.accept(token), "what the mask allows is refused"
            tokens.append(token)
        return None
