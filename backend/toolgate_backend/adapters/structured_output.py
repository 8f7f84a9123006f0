"""The adapter structured_output: the automaton as one of vLLM's native grammars.

The interface is in vllm/v1/structured_output/backend_types.py. The automaton runs in the
scheduler's process, once for each sequence however many ranks the model has. It works with both
model runners, async scheduling and speculative decoding: vLLM parks a request until its grammar is
built, requests one mask for each draft position, and validates and rolls back drafts with the
grammar's methods. vllm_host.py contains the hook that makes vLLM use these grammars.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, ParamSpec, TypeVar
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

NOWHERE = None, -1
P = ParamSpec("P")
T = TypeVar("T")


class EnforcementGrammar(StructuredOutputGrammar):  # type: ignore[misc]  # vLLM is not type-checked
    """The grammar of one sequence.

    An exception from its methods would end the whole engine (EngineDeadError). An error therefore
    ends only this sequence: its mask allows the failure token only, and the response is an error.
    """

    def __init__(
        self, automaton: Automaton, static: StaticMasks, jump_forward: JumpForward
    ) -> None:
        self.automaton = automaton
        self._static = static
        self._jump_forward = jump_forward
        self._mask_time = MaskTimeBudget(settings().mask_budget_ms / 1e3, settings().max_slow_masks)
        self.failed = False
        self.filled: tuple[torch.Tensor | None, int] = NOWHERE
        """The bitmask and the row that have the mask of the next token already."""

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """False ends the request with `finish_reason="error"`."""
        self.filled = NOWHERE
        return self._unless_failed(False, self.automaton.accept_tokens, tokens)

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """The prefix of a draft that is allowed. It ends at the end of the turn, because vLLM does
        not request masks beyond it."""
        return self._unless_failed([], self._validate, tokens)

    def drafts(self, proposed: list[int], limit: int) -> list[int]:
        """The draft to use instead of `proposed`, with forced text in it."""
        return self._unless_failed([], self._jump_forward.drafts, self.automaton, proposed, limit)

    def rollback(self, num_tokens: int) -> None:
        self.filled = NOWHERE
        self._unless_failed(None, self.automaton.rollback, num_tokens)

    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        filled, row = self.filled
        if filled is bitmask and row == batch_index:
            return
        self.fill_row(bitmask[batch_index].numpy())

    def fill_row(self, row: BitmaskRow) -> None:
        self._unless_failed(None, self._fill, row)
        if self.failed:
            masks.render(self._static.failure_mask, row, self._static.vocabulary_size)

    def _unless_failed(
        self, otherwise: T, action: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """The result of `action`; `otherwise` if the sequence has failed, or fails in `action`."""
        if not self.failed:
            try:
                return action(*args, **kwargs)
            except Exception:
                logger.exception("Toolgate: enforcement failed, ending the sequence with an error")
                self.failed = True
        return otherwise

    def _fill(self, row: BitmaskRow) -> None:
        with self._mask_time:
            self.automaton.fill_bitmask(row)

    def _validate(self, tokens: list[int]) -> list[int]:
        accepted = 0
        for token in tokens:
            if self.automaton.is_terminated() or not self.automaton.accept_tokens([token]):
                break
            accepted += 1
        self.automaton.rollback(accepted)
        return tokens[:accepted]

    def is_terminated(self) -> bool:
        return not self.failed and self.automaton.is_terminated()

    def reset(self) -> None:
        self.filled = NOWHERE
        self.automaton.reset()


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

    def fill_together(
        self, bitmask: torch.Tensor, grammars: Sequence[tuple[int, EnforcementGrammar]]
    ) -> None:
        """Compute the masks of a step, in the rows of vLLM's bitmask."""
        rows = bitmask.numpy()
        going = [(at, each) for at, each in grammars if not each.is_terminated()]
        for at, grammar in going:
            grammar.fill_row(rows[at])
            grammar.filled = bitmask, at
