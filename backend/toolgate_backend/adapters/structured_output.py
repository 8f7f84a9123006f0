"""The adapter structured_output: the automaton as one of vLLM's native grammars.

The interface is in vllm/v1/structured_output/backend_types.py. The automaton runs in the
scheduler's process, once for each sequence however many ranks the model has. It works with both
model runners, async scheduling and speculative decoding: vLLM parks a request until its grammar is
built, requests one mask for each draft position, and validates and rolls back drafts with the
grammar's methods. vllm_host.py contains the hook that makes vLLM use these grammars.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakSet

import torch
from vllm.logger import init_logger
from vllm.v1.structured_output.backend_types import StructuredOutputGrammar

from ..enforcement.automaton import Automaton
from ..enforcement.jump_forward import JumpForward
from ..enforcement.mask_time_budget import MaskTimeBudget
from ..enforcement.spec import Spec
from ..enforcement.static_masks import StaticMasks
from ..grammars import store
from ..settings import settings
from ..tokens import masks
from ..tokens.masks import BitmaskRow
from ..tokens.vocabulary import from_model_config

logger = init_logger(__name__)

T = TypeVar("T")


class EnforcementGrammar(StructuredOutputGrammar):  # type: ignore[misc]  # vLLM is not type-checked
    """The grammar of one sequence.

    An exception from its methods would end the whole engine (EngineDeadError). An error therefore
    ends only this sequence: its mask allows the failure token only, and the response is an error.
    """

    def __init__(
        self, automaton: Automaton, static: StaticMasks, jump_forward: JumpForward
    ) -> None:
        self._automaton = automaton
        self._static = static
        self._jump_forward = jump_forward
        self._mask_time = MaskTimeBudget(settings().mask_budget_ms / 1e3, settings().max_slow_masks)
        self._failed = False

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """False ends the request with `finish_reason="error"`."""
        return self._unless_failed(lambda: self._automaton.accept_tokens(tokens), False)

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """The prefix of a draft that is allowed. It ends at the end of the turn, because vLLM does
        not request masks beyond it."""
        return self._unless_failed(lambda: self._validate(tokens), [])

    def drafts(self, proposed: list[int], limit: int) -> list[int]:
        """The draft to use instead of `proposed`, with forced text in it."""
        return self._unless_failed(
            lambda: self._jump_forward.drafts(self._automaton, proposed, limit), []
        )

    def rollback(self, num_tokens: int) -> None:
        self._unless_failed(lambda: self._automaton.rollback(num_tokens), None)

    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        row = bitmask[batch_index].numpy()
        self._unless_failed(lambda: self._fill(row), None)
        if self._failed:
            masks.render(self._static.failure_mask, row, self._static.vocabulary_size)

    def _unless_failed(self, action: Callable[[], T], otherwise: T) -> T:
        """The result of `action`; `otherwise` if the sequence has failed, or fails in `action`."""
        if not self._failed:
            try:
                return action()
            except Exception:
                logger.exception("Toolgate: enforcement failed, ending the sequence with an error")
                self._failed = True
        return otherwise

    def _validate(self, tokens: list[int]) -> list[int]:
        accepted = 0
        for token in tokens:
            if self._automaton.is_terminated() or not self._automaton.accept_tokens([token]):
                break
            accepted += 1
        self._automaton.rollback(accepted)
        return tokens[:accepted]

    def _fill(self, row: BitmaskRow) -> None:
        with self._mask_time:
            self._automaton.fill_bitmask(row)

    def is_terminated(self) -> bool:
        return not self._failed and self._automaton.is_terminated()

    def reset(self) -> None:
        self._automaton.reset()


class EngineSequences:
    """The grammars and running sequences of one engine process."""

    def __init__(self, model_config: Any) -> None:
        vocabulary = from_model_config(model_config)
        self._static = StaticMasks(vocabulary)
        self._jump_forward = JumpForward(vocabulary.encode)
        self.store = store.GrammarStore(vocabulary)
        self._running: WeakSet[EnforcementGrammar] = WeakSet()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._running)

    def create_grammar(self, spec: Spec) -> EnforcementGrammar:
        """Called in the engine's pool. Raises GrammarNotLoaded, which ends that request only."""
        grammars = spec.grammars_in(self.store)
        self._static.prepare_prefixes(grammars.candidates)
        automaton = Automaton(self._static, spec, *grammars)
        grammar = EnforcementGrammar(automaton, self._static, self._jump_forward)
        with self._lock:
            self._running.add(grammar)
        return grammar
