"""The adapter logits_processor: a V1 logits processor that runs one automaton for each sequence.

The interface is in vllm/v1/sample/logits_processor/interface.py. The processor maps rows of the
persistent batch to automata. Tokens are accepted in `apply`, not in `update_state`: under async
scheduling the last sampled ids are −1 placeholders until just before sampling.

Pass the class with `--logits-processors`, never as an entry point. vLLM silently drops entry-point
processors when speculative decoding is on, and repairs the placeholders only for processors of that
flag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
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
from ..enforcement.static_masks import StaticMasks
from ..errors import BackendError
from ..grammars import store
from ..settings import settings
from ..tokens import masks
from ..tokens.masks import words_per_row
from ..tokens.vocabulary import from_model_config
from .apply_masks import MaskApplier

logger = init_logger(__name__)

T = TypeVar("T")


@dataclass
class _Row:
    """One sequence in the batch."""

    automaton: Automaton | None
    """None if the enforcement of this sequence has failed."""
    output: list[int]
    """vLLM's own list of output tokens, which vLLM extends."""
    accepted: int = 0
    mask_time: MaskTimeBudget = field(
        default_factory=lambda: MaskTimeBudget(
            settings().mask_budget_ms / 1e3, settings().max_slow_masks
        )
    )


class EnforcementLogitsProcessor(LogitsProcessor):  # type: ignore[misc]
    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        vocabulary = from_model_config(vllm_config.model_config)
        self._static = StaticMasks(vocabulary)
        self._applier = MaskApplier(device, pin_memory=is_pin_memory)
        self._applier.compile_kernels(vocabulary.size)
        self._store = store.GrammarStore(vocabulary)
        store.install(self._store)
        self._rows: dict[int, _Row] = {}
        self._vocabulary_size = vocabulary.size
        self._together = np.empty((0, words_per_row(vocabulary.size)), np.int32)

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Raises ValueError, which vLLM returns as a 400, for a spec that a client sent directly to
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
        rows = self._rows
        for index in batch_update.removed:
            rows.pop(index, None)
        for index, params, _, output in batch_update.added:
            rows.pop(index, None)
            row = self._create_row(params, output)
            if row is not None:
                rows[index] = row
        for source, target, direction in batch_update.moved:
            moved, other = rows.pop(source, None), rows.pop(target, None)
            if moved is not None:
                rows[target] = moved
            if other is not None and direction is MoveDirectionality.SWAP:
                rows[source] = other
        store.report_sequences(len(rows))

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        if not self._rows:
            return logits
        for row in self._rows.values():
            self._unless_failed(row, None, self._accept)
        self._applier.apply(logits, list(self._masks()))
        return logits

    def _masks(self) -> Iterator[tuple[int, masks.Mask]]:
        """The mask of each row."""
        rows = list(self._rows.items())
        if len(self._together) < len(rows):
            self._together = np.empty((len(rows), words_per_row(self._vocabulary_size)), np.int32)
        automata = [(at, row.automaton) for at, (_, row) in enumerate(rows) if row.automaton]
        done = self._batch.fill(self._together, automata)
        failure: masks.Mask = self._static.failure_mask
        for at, (index, row) in enumerate(rows):
            if at in done:
                yield index, masks.Bits(self._together[at])
            else:
                yield index, self._unless_failed(row, failure, self._mask)

    def _create_row(self, params: SamplingParams, output: list[int]) -> _Row | None:
        """None for a request without enforcement. A row without an automaton if the automaton could
        not be created, for any reason; see `_unless_failed`."""
        try:
            constraints = spec.from_extra_args(params.extra_args, params.seed)
            if constraints is None:
                return None
            grammars = constraints.grammars_in(self._store)
            return _Row(Automaton(self._static, constraints, *grammars), output)
        except Exception as error:  # noqa: BLE001 - an exception would end the whole engine
            logger.error("Toolgate: cannot enforce a sequence, ending it with an error: %r", error)
            return _Row(None, output)

    def _unless_failed(self, row: _Row, otherwise: T, action: Callable[[_Row, Automaton], T]) -> T:
        """The result of `action`; `otherwise` if the sequence has failed, or fails in `action`. An
        error in one sequence ends that sequence only, whereas an exception would end the whole
        engine (EngineDeadError)."""
        if row.automaton is not None:
            try:
                return action(row, row.automaton)
            except Exception:
                logger.exception("Toolgate: enforcement failed, ending the sequence with an error")
                row.automaton = None
        return otherwise

    def _accept(self, row: _Row, automaton: Automaton) -> None:
        """Accept the new tokens of a row."""
        output = row.output
        if row.accepted > len(output):
            raise BackendError(
                f"vLLM's output list shrank from {row.accepted} to {len(output)} tokens; the "
                "adapter logits_processor does not support rollback"
            )
        new = output[row.accepted :]
        if new and not automaton.accept_tokens(new):
            raise BackendError(f"vLLM sampled a masked token, among the last {len(new)} tokens")
        row.accepted = len(output)

    def _mask(self, row: _Row, automaton: Automaton) -> masks.Mask:
        with row.mask_time:
            return masks.Bits(automaton.next_row().words)
