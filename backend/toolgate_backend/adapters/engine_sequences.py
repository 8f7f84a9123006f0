"""The grammars and running sequences of one engine process, and the bitmask of its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any
from weakref import WeakSet

import numpy as np

from ..enforcement.automaton import Automaton
from ..enforcement.jump_forward import JumpForward, RepeatedText
from ..enforcement.mask_time_budget import StepTimer
from ..enforcement.model_data import ModelData
from ..enforcement.spec import Spec
from ..errors import GrammarNotCreated
from ..grammars import store
from ..settings import settings
from ..tokens.masks import BitmaskRows, Row, words_per_row
from ..tokens.vocabulary import from_model_config
from .structured_output import EnforcementGrammar, FailedSequence, Shared

NO_GRAMMAR = "toolgate: the grammar of this request could not be created in vLLM's engine"
"""The exception that vLLM's engine gets then. From 0.33 on, vLLM reports it as an error of the
client, and this text, which is in that error, tells that it is none. Earlier releases end the
response with `finish_reason="error"`."""


class EngineSequences:
    def __init__(self, model_config: Any) -> None:
        vocabulary = from_model_config(model_config)
        self._model = ModelData(vocabulary)
        self._model.graphs.prepare_json()
        self._shared = Shared(FailedSequence(self._model), JumpForward(vocabulary.encode))
        self.store = store.GrammarStore(vocabulary)
        self.store.on_load = self._model.graphs.prepare
        self.store.on_release = self._model.turns.forget
        self.step_masks = StepMasks(words_per_row(vocabulary.size))
        self._running: WeakSet[EnforcementGrammar] = WeakSet()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._running)

    def create_grammar(self, spec: Spec, prompt: Sequence[int] = ()) -> EnforcementGrammar:
        """Called in the engine's pool. `prompt`: the tokens before the response. Raises
        GrammarNotCreated, which ends that request only."""
        try:
            grammars, content = spec.grammars_in(self.store)
            self._model.prepare_prefixes(grammars)
            automaton = Automaton(self._model, spec, grammars, content)
        except Exception as error:
            raise GrammarNotCreated(f"{NO_GRAMMAR}: {error}") from error
        text = RepeatedText(prompt) if settings().forced_drafts else None
        grammar = EnforcementGrammar(automaton, self._shared, text)
        with self._lock:
            self._running.add(grammar)
        return grammar


_sequences: EngineSequences | None = None
_sequences_lock = Lock()


def engine_sequences(vllm_config: Any) -> EngineSequences:
    """The sequences of this engine process. Created by the API process's first call at start-up, so
    that no request waits until the vocabulary is read."""
    global _sequences
    with _sequences_lock:
        if _sequences is None:
            _sequences = EngineSequences(vllm_config.model_config)
        return _sequences


FIRST_ROWS = 64


class StepMasks:
    """The bitmask of a step whose structured requests are all Toolgate's. Not thread-safe.

    Each sequence keeps its row of the bitmask as long as it runs, and a row is written only if its
    mask has changed. Inside a string, it does not change for many steps.

    Like vLLM's own bitmask, a returned one is overwritten in the next step. By then, vLLM's
    executors and workers have copied or sent it.
    """

    def __init__(self, words: int, seconds: float | None = None) -> None:
        """`words`: the width of a row. `seconds`: the wall time above which a step is slow."""
        self._words = words
        self._timer = StepTimer(seconds)
        self._ids: list[str] = []
        """The sequence of each row. Never changed in place, because vLLM gets this list."""
        self._placed = frozenset[str]()
        self._allocate(FIRST_ROWS)

    def fill(self, grammars: Mapping[str, EnforcementGrammar]) -> tuple[list[str], BitmaskRows]:
        """Return the masks of these sequences, by request id: the order of the rows, and the
        rows."""
        if grammars.keys() != self._placed:
            self._place(grammars)
        ids, held, views = self._ids, self._held, self._views
        timed = self._timer.begin()
        next_row = EnforcementGrammar.next_timed_row if timed else EnforcementGrammar.next_row
        for at, request_id in enumerate(ids):
            row = next_row(grammars[request_id])
            if held[at] is not row:
                views[at][:] = row.view
                held[at] = row
        self._timer.end()
        return ids, self._bitmask[: len(ids)]

    def _place(self, grammars: Mapping[str, EnforcementGrammar]) -> None:
        """Give rows to new sequences, and leave all others where they are. If there are fewer than
        before, the last ones move to the rows that are free."""
        new = iter([each for each in grammars if each not in self._placed])
        ids = [each if each in grammars else next(new, None) for each in self._ids]
        ids += new
        while None in ids:
            last = ids.pop()
            if last is not None:
                ids[ids.index(None)] = last
        self._ids = [each for each in ids if each is not None]
        self._placed = frozenset(self._ids)
        if len(ids) > len(self._held):
            self._allocate(2 * len(ids))

    def _allocate(self, rows: int) -> None:
        self._bitmask: BitmaskRows = np.empty((rows, self._words), np.int32)
        self._views = [memoryview(row).cast("B") for row in self._bitmask]
        """The same memory. Copying into a memoryview keeps Python's lock, numpy gives it up."""
        self._held: list[Row | None] = [None] * rows
        """What is written in each row."""
