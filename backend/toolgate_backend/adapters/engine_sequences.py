"""The grammars and running sequences of one process, of the engine or of a worker."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any
from weakref import WeakSet

import numpy as np

from ..enforcement.automaton import Automaton
from ..enforcement.jump_forward import JumpForward, RepeatedText
from ..enforcement.model_data import ModelData
from ..enforcement.spec import Spec
from ..enforcement.turn_graph import TurnGraphs
from ..errors import GrammarNotCreated
from ..grammars import store
from ..grammars.compiled_grammar import MeasuredGrammar
from ..settings import settings
from ..tokens.vocabulary import from_model_config
from .structured_output import EnforcementGrammar, EngineContext, FailedSequence, StepMasks

NO_GRAMMAR = "toolgate: the grammar of this request could not be created in vLLM's engine"
"""The exception that vLLM's engine gets then. From 0.33 on, vLLM reports it as an error of the
client, and this text, which is in that error, tells that it is none. Earlier releases end the
response with `finish_reason="error"`."""

FEW_TOOLS = 64
"""Number of tools up to which a known turn is found in a few microseconds."""


class EngineSequences:
    def __init__(self, model_config: Any) -> None:
        vocabulary = from_model_config(model_config)
        model = ModelData(vocabulary)
        self.turns = TurnGraphs(model)
        everything = model.rows.row(np.full_like(model.in_grammars, -1))
        self._shared = EngineContext(
            FailedSequence(model), JumpForward(vocabulary.encode), everything
        )
        self.store = store.GrammarStore(vocabulary)
        self.turns.follow(self.store)
        self.step_masks = StepMasks()
        self.asked_workers = False
        self._running: WeakSet[EnforcementGrammar] = WeakSet()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._running)

    def create_grammar(self, spec: Spec, prompt: Sequence[int] = ()) -> EnforcementGrammar:
        """Called in the engine's pool, or by a worker's logits processor. `prompt`: the tokens
        before the response. Raise GrammarNotCreated, which ends that request only."""
        try:
            grammars, content = spec.grammars_in(self.store)
            self.turns.model.prepare_prefixes(grammars)
            return self._created(spec, grammars, content, prompt)
        except Exception as error:
            raise GrammarNotCreated(f"{NO_GRAMMAR}: {error}") from error

    def create_failed(self) -> EnforcementGrammar:
        """Return a sequence that ends with an error."""
        return EnforcementGrammar(self._shared.failed, self._shared)

    def create_known(self, spec: Spec, prompt: Sequence[int] = ()) -> EnforcementGrammar | None:
        """As `create_grammar`, in a few microseconds; None if it takes longer. That is so for the
        first of equal requests, for many tools, for tokens to continue from, and with drafts of
        forced text, for which the prompt is read."""
        if len(spec.keys) > FEW_TOOLS or spec.accepted or settings().forced_drafts:
            return None
        grammars, content = spec.grammars_in(self.store)
        if not self.turns.has(spec, grammars, content):
            return None
        return self._created(spec, grammars, content, prompt)

    def _created(
        self,
        spec: Spec,
        grammars: Sequence[MeasuredGrammar],
        content: MeasuredGrammar | None,
        prompt: Sequence[int],
    ) -> EnforcementGrammar:
        automaton = Automaton(self.turns, spec, grammars, content)
        text = RepeatedText(prompt) if settings().forced_drafts else None
        grammar = EnforcementGrammar(automaton, self._shared, text)
        with self._lock:
            self._running.add(grammar)
        return grammar


_sequences: EngineSequences | None = None
_sequences_lock = Lock()


def engine_sequences(vllm_config: Any) -> EngineSequences:
    """Return the sequences of this engine process. Created by the API process's first call at
    start-up, so that no request waits until the vocabulary is read."""
    global _sequences
    with _sequences_lock:
        if _sequences is None:
            _sequences = EngineSequences(vllm_config.model_config)
        return _sequences
