"""The adapter logits_processor: a V1 logits processor that runs one automaton for each sequence.

The interface is in vllm/v1/sample/logits_processor/interface.py. The processor maps rows of the
persistent batch to automata. Tokens are accepted in `apply`, not in `update_state`: under async
scheduling the last sampled ids are −1 placeholders until just before sampling.

Pass the class with `--logits-processors`, never as an entry point. vLLM silently drops entry-point
processors when speculative decoding is on, and repairs the placeholders only for processors of that
flag.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from vllm.logger import init_logger
from vllm.sampling_params import SamplingParams
from vllm.v1.sample.logits_processor.interface import (
    BatchUpdate,
    LogitsProcessor,
    MoveDirectionality,
)

from ..enforcement import spec
from ..enforcement.automaton import Automaton
from ..enforcement.mask_time_budget import MaskTimeBudget
from ..enforcement.model_data import ModelData
from ..enforcement.turn_graph import TurnGraphs
from ..errors import BackendError
from ..grammars import store
from ..tokens.masks import Row
from ..tokens.vocabulary import from_model_config
from .apply_masks import make_table
from .row_numbers import RowNumbers, slots_of

logger = init_logger(__name__)


@dataclass(slots=True)
class _Sequence:
    """One sequence in the batch."""

    automaton: Automaton | None
    """None if the enforcement of this sequence has failed."""
    output: list[int]
    """vLLM's own list of output tokens, which vLLM extends."""
    accepted: int = 0
    mask_time: MaskTimeBudget = field(default_factory=MaskTimeBudget)


class EnforcementLogitsProcessor(LogitsProcessor):  # type: ignore[misc]
    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        vocabulary = from_model_config(vllm_config.model_config)
        model = ModelData(vocabulary)
        self._turns = TurnGraphs(model)
        slots = slots_of(vllm_config)
        self._numbers = RowNumbers(slots)
        self._table = make_table(
            device, vocabulary.size, forces=True, slots=slots, pin_memory=is_pin_memory
        )
        self._store = store.GrammarStore(vocabulary)
        self._turns.follow(self._store)
        store.install(self._store)
        self._sequences: dict[int, _Sequence] = {}
        """The sequences by row of the batch."""
        self._failure_row = model.row_of(model.failure_mask)

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Raise ValueError, which vLLM returns as a 400, for a spec that a client sent directly to
        vLLM in `vllm_xargs`."""
        try:
            spec.from_extra_args(sampling_params.extra_args, sampling_params.seed)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(
                "vllm_xargs.toolgate is reserved for Toolgate's gateway. Remove it from the "
                "request."
            ) from error

    def is_argmax_invariant(self) -> bool:
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        if batch_update is None:
            return
        sequences = self._sequences
        for index in batch_update.removed:
            sequences.pop(index, None)
        for index, params, _, output in batch_update.added:
            sequences.pop(index, None)
            sequence = self._create_sequence(params, output)
            if sequence is not None:
                sequences[index] = sequence
        for source, target, direction in batch_update.moved:
            moved, other = sequences.pop(source, None), sequences.pop(target, None)
            if moved is not None:
                sequences[target] = moved
            if other is not None and direction is MoveDirectionality.SWAP:
                sequences[source] = other
        store.report_sequences(len(sequences))

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        if self._sequences:
            rows = [*map(self._next_row, self._sequences.values())]
            self._table.apply(logits, list(self._sequences), self._numbers.number(rows))
        return logits

    def _create_sequence(self, params: SamplingParams, output: list[int]) -> _Sequence | None:
        """Return None for a request without enforcement, and a sequence without an automaton if the
        automaton could not be created, for any reason; see `_next_row`."""
        try:
            constraints = spec.from_extra_args(params.extra_args, params.seed)
            if constraints is None:
                return None
            grammars = constraints.grammars_in(self._store)
            return _Sequence(Automaton(self._turns, constraints, *grammars), output)
        except Exception as error:  # noqa: BLE001 - an exception would end the whole engine
            logger.error("Toolgate: cannot enforce a sequence, ending it with an error: %r", error)
            return _Sequence(None, output)

    def _next_row(self, sequence: _Sequence) -> Row:
        """Accept the new tokens of a sequence; the tokens allowed next.

        An error in one sequence ends that sequence only, whereas an exception would end the whole
        engine (EngineDeadError)."""
        automaton = sequence.automaton
        if automaton is None:
            return self._failure_row
        try:
            new = len(sequence.output) - sequence.accepted
            if new == 1:
                accepted = automaton.accept(sequence.output[-1])
            else:
                accepted = automaton.accept_tokens(_new_tokens(sequence))
            if not accepted:
                raise BackendError(f"vLLM sampled a masked token, among the last {new} tokens")
            sequence.accepted += new
            if automaton.row is not None:
                return automaton.row
            with sequence.mask_time:
                return automaton.next_row()
        except Exception:
            logger.exception("Toolgate: enforcement failed, ending the sequence with an error")
            sequence.automaton = None
            return self._failure_row


def _new_tokens(sequence: _Sequence) -> list[int]:
    if sequence.accepted > len(sequence.output):
        raise BackendError(
            f"vLLM's output list shrank from {sequence.accepted} to {len(sequence.output)} tokens; "
            "the adapter logits_processor does not support rollback"
        )
    return sequence.output[sequence.accepted :]
