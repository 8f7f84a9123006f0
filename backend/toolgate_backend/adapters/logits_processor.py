"""The automaton as a V1 logits processor (vllm/v1/sample/logits_processor/interface.py).

Maps rows of the persistent batch to automata. Tokens are accepted in `apply`, not `update_state`:
under async scheduling the last sampled ids are −1 placeholders until just before sampling.

Pass the class with `--logits-processors`, never as an entry point: vLLM drops entry-point
processors silently when drafts are on, and repairs the placeholders for the CLI list only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from vllm.logger import init_logger
from vllm.v1.sample.logits_processor.interface import (
    BatchUpdate,
    LogitsProcessor,
    MoveDirectionality,
)

from ..enforcement import masks, spec
from ..enforcement.automaton import Automaton
from ..enforcement.mask_time_budget import MaskTimeBudget
from ..enforcement.static_masks import Rules
from ..errors import BackendError
from ..grammars import store
from ..settings import settings
from ..vocabulary import from_model_config
from .apply_masks import LogitsRows

logger = init_logger(__name__)


@dataclass
class _Row:
    """One sequence in the batch. `output` is vLLM's own list, which grows as tokens come."""

    automaton: Automaton | None
    output: list[int]
    accepted: int = 0
    patience: MaskTimeBudget = field(
        default_factory=lambda: MaskTimeBudget(
            settings().mask_budget_ms / 1e3, settings().mask_patience
        )
    )


class EnforcementLogitsProcessor(LogitsProcessor):  # type: ignore[misc]
    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        vocabulary = from_model_config(vllm_config.model_config)
        self._rules = Rules(vocabulary)
        self._on = LogitsRows(device)
        self._store = store.GrammarStore(vocabulary)
        store.install(self._store)
        self._rows: dict[int, _Row] = {}

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """vLLM answers 400. Whoever asks it directly may set anything in `vllm_xargs`."""
        try:
            spec.from_extra_args(sampling_params.extra_args)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError("vllm_xargs.toolgate is not to be set by clients.") from error

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
            row = self._row(params.extra_args, output)
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
        self._on.apply(logits, [(at, self._next_mask(row)) for at, row in self._rows.items()])
        return logits

    def _row(self, extra_args: dict[str, Any] | None, output: list[int]) -> _Row | None:
        """None for a request that is not ours. One without an automaton where there can be none,
        whatever the reason: see `_next_mask`."""
        try:
            held = spec.from_extra_args(extra_args)
            if held is None:
                return None
            return _Row(Automaton(self._rules, held, *self._store.of(held)), output)
        except Exception as error:  # noqa: BLE001 - it would take the engine down
            logger.error("Toolgate: a sequence cannot be enforced and ends: %r", error)
            return _Row(None, output)

    def _next_mask(self, row: _Row) -> masks.Mask:
        """One sequence's trouble ends that sequence, whatever it is: an exception that left this
        method would take the whole engine down (EngineDeadError)."""
        if row.automaton is not None:
            try:
                return self._advance(row, row.automaton)
            except Exception:
                logger.exception("Toolgate: enforcement failed; this sequence ends")
                row.automaton = None
        return self._rules.failure

    def _advance(self, row: _Row, automaton: Automaton) -> masks.Mask:
        output = row.output
        if row.accepted > len(output):
            raise BackendError("vLLM took tokens back")
        new = output[row.accepted :]
        if new and not automaton.accept_tokens(new):
            raise BackendError(f"a token came that was masked, among the last {len(new)}")
        row.accepted = len(output)
        with row.patience:
            return automaton.next_mask()
