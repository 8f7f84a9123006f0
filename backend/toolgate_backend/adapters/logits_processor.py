"""The adapter logits_processor: a V1 logits processor that runs one automaton for each sequence.

The interface is in vllm/v1/sample/logits_processor/interface.py. The processor maps rows of the
persistent batch to automata. Tokens are accepted in `apply`, not in `update_state`: under async
scheduling the last sampled ids are −1 placeholders until just before sampling.

Pass the class with `--logits-processors`, never as an entry point. vLLM silently drops entry-point
processors when speculative decoding is on, and repairs the placeholders only for processors of that
flag.
"""

from __future__ import annotations

from dataclasses import dataclass
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
from ..grammars import store
from ..tokens.masks import Row
from .apply_masks import make_table
from .engine_sequences import EngineSequences
from .row_numbers import RowNumbers, slots_of
from .structured_output import EnforcementGrammar

logger = init_logger(__name__)


@dataclass(slots=True)
class _Sequence:
    """One sequence in the batch."""

    grammar: EnforcementGrammar
    output: list[int]
    """vLLM's own list of output tokens, which vLLM extends."""
    accepted: int = 0

    def next_row(self) -> Row:
        """Accept the new tokens; the tokens allowed next. An error ends this sequence only."""
        grammar, new = self.grammar, self.output[self.accepted :]
        if self.accepted > len(self.output):
            grammar.fail(
                f"vLLM's output list shrank from {self.accepted} to {len(self.output)} tokens; "
                "the adapter logits_processor does not support rollback"
            )
        elif not grammar.accept_tokens("", new):
            grammar.fail(f"vLLM sampled a masked token, among the last {len(new)} tokens")
        self.accepted += len(new)
        return grammar.automaton.row or grammar.next_row()


class EnforcementLogitsProcessor(LogitsProcessor):  # type: ignore[misc]
    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        model_config, slots = vllm_config.model_config, slots_of(vllm_config)
        self._enforced = EngineSequences(model_config)
        store.install(self._enforced.store)
        self._numbers = RowNumbers(slots)
        size = model_config.get_vocab_size()
        self._table = make_table(device, size, forces=True, slots=slots, pin_memory=is_pin_memory)
        self._sequences: dict[int, _Sequence] = {}
        """The sequences by row of the batch."""

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
            rows = [each.next_row() for each in self._sequences.values()]
            self._table.apply(logits, list(self._sequences), self._numbers.number(rows))
        return logits

    def _create_sequence(self, params: SamplingParams, output: list[int]) -> _Sequence | None:
        """Return None for a request without enforcement, and a sequence that ends with an error if
        its grammar could not be created, for any reason."""
        try:
            constraints = spec.from_extra_args(params.extra_args, params.seed)
            if constraints is None:
                return None
            return _Sequence(self._enforced.create_grammar(constraints), output)
        except Exception as error:  # noqa: BLE001 - an exception would end the whole engine
            logger.error("Toolgate: cannot enforce a sequence, ending it with an error: %r", error)
            return _Sequence(self._enforced.create_failed(), output)
