"""The automaton as a V1 logits processor (vllm/v1/sample/logits_processor/interface.py, 0.32).

Maps rows of the persistent batch to automata. Tokens are accepted in `apply`, not `update_state`:
under async scheduling the last sampled ids are −1 placeholders until just before sampling.

Pass the class with `--logits-processors`, never as an entry point: vLLM drops entry-point
processors silently when drafts are on, and repairs the placeholders for the CLI list only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import xgrammar
from vllm.logger import init_logger
from vllm.v1.sample.logits_processor.interface import (
    BatchUpdate,
    LogitsProcessor,
    MoveDirectionality,
)

from ..enforcement import masks, spec
from ..enforcement.automaton import Automaton
from ..enforcement.patience import Patience
from ..enforcement.rules import Rules
from ..errors import BackendError
from ..grammars import store
from ..grammars.engine import Words
from ..settings import settings
from ..vocabulary import from_model_config

logger = init_logger(__name__)

FORBIDDEN = float("-inf")


@dataclass
class _Row:
    """One sequence in the batch. `output` is vLLM's own list, which grows as tokens come."""

    automaton: Automaton | None
    output: list[int]
    accepted: int = 0
    patience: Patience = field(
        default_factory=lambda: Patience(settings().mask_budget_ms / 1e3, settings().mask_patience)
    )


class EnforcementLogitsProcessor(LogitsProcessor):  # type: ignore[misc]
    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        vocabulary = from_model_config(vllm_config.model_config)
        self._rules = Rules(vocabulary)
        self._device = device
        self._store = store.GrammarStore(vocabulary)
        store.install(self._store)
        self._rows: dict[int, _Row] = {}
        self._forbidden: dict[str, torch.Tensor] = {}

    def is_argmax_invariant(self) -> bool:
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        if batch_update is None:
            return
        rows = self._rows
        for index in batch_update.removed:
            rows.pop(index, None)
        for index, params, _, output in batch_update.added:
            held = spec.from_extra_args(params.extra_args)
            rows.pop(index, None)
            if held is not None:
                rows[index] = _Row(self._automaton(held), output)
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
        free: dict[str | None, tuple[masks.Forbid, list[int]]] = {}
        bits: list[tuple[int, masks.Bits]] = []
        for index, row in self._rows.items():
            mask = self._next_mask(row)
            if isinstance(mask, masks.Forbid) and mask.key is None:
                logits[index, torch.from_numpy(mask.ids).to(self._device)] = FORBIDDEN
            elif isinstance(mask, masks.Forbid):
                free.setdefault(mask.key, (mask, []))[1].append(index)
            elif isinstance(mask, masks.Bits):
                bits.append((index, mask))
            else:
                self._allow_only(logits[index], mask.ids)
        for mask, indices in free.values():
            rows = torch.tensor(indices, device=self._device)
            logits[rows[:, None], self._ids_on_device(mask)] = FORBIDDEN
        if bits:
            self._apply_bits(logits, bits)
        return logits

    def _automaton(self, held: spec.Spec) -> Automaton | None:
        try:
            return Automaton(self._rules, held, *self._store.of(held))
        except BackendError as error:
            logger.error("Toolgate: a sequence cannot be enforced and ends: %s", error)
            return None

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
        with row.patience.timed():
            return automaton.next_mask()

    def _ids_on_device(self, mask: masks.Forbid) -> torch.Tensor:
        assert mask.key is not None
        held = self._forbidden.get(mask.key)
        if held is None:
            held = torch.from_numpy(mask.ids).to(self._device)
            self._forbidden[mask.key] = held
        return held

    def _allow_only(self, row: torch.Tensor, ids: masks.Ids) -> None:
        allowed = torch.from_numpy(ids).to(self._device)
        # A single token is forced whatever stood there: a ban elsewhere must not leave nothing.
        kept = row[allowed] if len(ids) > 1 else torch.zeros(1, device=row.device, dtype=row.dtype)
        row.fill_(FORBIDDEN)
        row[allowed] = kept

    def _apply_sparse(self, row: torch.Tensor, words: Words) -> None:
        if np.bitwise_count(words.view(np.uint32)).sum() * 2 < len(row):
            self._allow_only(row, masks.unpack(words))
        else:
            forbidden = masks.unpack(~words)
            row[torch.from_numpy(forbidden[forbidden < len(row)])] = FORBIDDEN

    def _apply_bits(self, logits: torch.Tensor, rows: list[tuple[int, masks.Bits]]) -> None:
        if self._device.type == "cpu":
            # Touches the smaller side only: xgrammar's CPU kernel takes 490 µs a row of 151,936
            # entries when few are allowed, this 36.
            for index, mask in rows:
                self._apply_sparse(logits[index], mask.words)
            return
        indices = [index for index, _ in rows]
        words = np.stack([mask.words for _, mask in rows])
        bitmask = torch.zeros(logits.shape[0], words.shape[1], dtype=torch.int32)
        bitmask[indices] = torch.from_numpy(words)
        xgrammar.apply_token_bitmask_inplace(
            logits, bitmask.to(self._device, non_blocking=True), indices=indices
        )
