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
        self._closers = np.array(
            [i for i, b in enumerate(vocabulary.token_bytes) if b and set(b) <= set(CLOSERS)]
        )
        self._special = np.array(sorted(vocabulary.special))

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
            allowed = np.setdiff1d(masks.unpack(row), self._special)
            assert allowed.size, "nothing may follow"
            closing = np.intersect1d(allowed, self._closers)
            some = closing if closing.size and dice.random() < 0.6 else allowed
            token = int(some[dice.randrange(some.size)])
            assert matcher.accept(token), "what the mask allows is refused"
            tokens.append(token)
        return None
