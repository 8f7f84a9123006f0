"""Random calls of loaded tools, which make the tools' token graphs grow."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.support.vocabularies import JSON_CLOSERS
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.model_data import ModelData
from toolgate_backend.enforcement.spec import Spec
from toolgate_backend.grammars.store import GrammarStore
from toolgate_backend.tokens import masks
from toolgate_backend.tokens.vocabulary import Vocabulary

MAX_TOKENS = 200
CLOSING = 0.3
"""Probability of a token that ends something, where one is allowed."""


class WrittenCalls:
    def __init__(self, vocabulary: Vocabulary, store: GrammarStore) -> None:
        """Uses the grammars of `store` as an adapter does."""
        self._model, self._store = ModelData(vocabulary), store
        self._model.graphs.prepare_json()
        store.on_load = self._model.graphs.prepare
        store.on_release = self._model.turns.forget
        self._closers = [i for i, text in enumerate(vocabulary.token_bytes) if text in JSON_CLOSERS]
        self._closers += [*vocabulary.marks.tokens.values(), vocabulary.marks.end_of_turn[0]]
        self._drawn = random.Random(1)

    @property
    def graph_bytes(self) -> int:
        """As the graphs count them."""
        return self._model.graphs.memory.bytes

    @property
    def generation(self) -> int:
        """How often the graphs have begun anew."""
        return self._model.graphs.memory.generation

    def write(self, keys: Sequence[str]) -> None:
        """Write a call of each of these tools."""
        for key in keys:
            spec = Spec("required", (key,), max_calls=1, reasoning="closed", budget=MAX_TOKENS)
            automaton = Automaton(self._model, spec, *spec.grammars_in(self._store))
            while not automaton.is_terminated():
                automaton.accept(self._token(automaton))

    def _token(self, automaton: Automaton) -> int:
        words = automaton.next_row().words
        closers = [token for token in self._closers if words[token >> 5] >> (token & 31) & 1]
        if closers and self._drawn.random() < CLOSING:
            return self._drawn.choice(closers)
        return int(self._drawn.choice(masks.unpack(words)))
