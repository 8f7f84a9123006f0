"""The automaton as vLLM's native grammar (vllm/v1/structured_output/backend_types.py).

It lives in the scheduler's process, one a sequence however many ranks the model runs on, and works
with both model runners, async scheduling and drafts: vLLM parks a request until its grammar is
built, asks for one mask a draft position, and validates and rolls drafts back by the grammar's own
verbs. How vLLM comes to ask us for the grammar is in vllm_host.py.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakSet

import torch
from vllm.logger import init_logger
from vllm.v1.structured_output.backend_types import StructuredOutputGrammar

from ..enforcement import masks
from ..enforcement.automaton import Automaton
from ..enforcement.jump_forward import JumpForward
from ..enforcement.mask_time_budget import MaskTimeBudget
from ..enforcement.spec import Spec
from ..enforcement.static_masks import Rules
from ..grammars import store
from ..grammars.engines.engine import Words
from ..settings import settings
from ..vocabulary import from_model_config

logger = init_logger(__name__)

T = TypeVar("T")


class EnforcementGrammar(StructuredOutputGrammar):  # type: ignore[misc]  # vLLM's types are not read
    """One sequence. An exception that left it would take the whole engine down (EngineDeadError):
    whatever breaks, breaks this sequence, which gets the failure token and ends with an error."""

    def __init__(self, automaton: Automaton, rules: Rules, forecast: JumpForward) -> None:
        self._automaton = automaton
        self._rules = rules
        self._forecast = forecast
        self._patience = MaskTimeBudget(settings().mask_budget_ms / 1e3, settings().mask_patience)
        self._broken = False

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """False ends the request with `finish_reason="error"`."""
        return self._unless_broken(lambda: self._automaton.accept_tokens(tokens), False)

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """The prefix of a draft that may come. Nothing comes after the end of the turn: vLLM asks
        no grammar for masks beyond it."""
        return self._unless_broken(lambda: self._valid(tokens), [])

    def drafts(self, proposed: list[int], limit: int) -> list[int]:
        """What to propose instead of `proposed`: text that must come need not be guessed."""
        return self._unless_broken(
            lambda: self._forecast.drafts(self._automaton, proposed, limit), []
        )

    def rollback(self, num_tokens: int) -> None:
        self._unless_broken(lambda: self._automaton.rollback(num_tokens), None)

    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        row = bitmask[batch_index].numpy()
        self._unless_broken(lambda: self._fill(row), None)
        if self._broken:
            masks.render(self._rules.failure, row, self._rules.vocabulary_size)

    def _unless_broken(self, act: Callable[[], T], otherwise: T) -> T:
        """What `act` answers; `otherwise` for a sequence that is broken, or breaks by it."""
        if not self._broken:
            try:
                return act()
            except Exception:
                logger.exception("Toolgate: enforcement failed; this sequence ends")
                self._broken = True
        return otherwise

    def _valid(self, tokens: list[int]) -> list[int]:
        accepted = 0
        for token in tokens:
            if self._automaton.is_terminated() or not self._automaton.accept_tokens([token]):
                break
            accepted += 1
        self._automaton.rollback(accepted)
        return tokens[:accepted]

    def _fill(self, row: Words) -> None:
        with self._patience:
            self._automaton.fill_bitmask(row)

    def is_terminated(self) -> bool:
        return not self._broken and self._automaton.is_terminated()

    def reset(self) -> None:
        self._automaton.reset()


class Sequences:
    """What an engine's process holds for its model: rules, grammars, the sequences that run."""

    def __init__(self, model_config: Any) -> None:
        vocabulary = from_model_config(model_config)
        self._rules = Rules(vocabulary)
        self._forecast = JumpForward(vocabulary.encode)
        self.store = store.GrammarStore(vocabulary)
        self._running: WeakSet[EnforcementGrammar] = WeakSet()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._running)

    def begin(self, held: Spec) -> EnforcementGrammar:
        """Raises GrammarMissing, which ends that request alone. Called in the engine's pool."""
        grammars, content = self.store.of(held)
        self._rules.prepare(grammars)
        automaton = Automaton(self._rules, held, grammars, content)
        grammar = EnforcementGrammar(automaton, self._rules, self._forecast)
        with self._lock:
            self._running.add(grammar)
        return grammar
