"""The adapter logits_processor: one automaton for each sequence, in vLLM's workers.

vLLM has an interface of logits processors for each of its model runners. The class implements both:

- V2 (vllm/v1/worker/gpu/sample/logits_processor/interface.py): sequences have slots, and their
  tokens are on the device (token_history.py). A sequence has a row of logits for each draft, too.
- V1 (vllm/v1/sample/logits_processor/interface.py), where V2 does not run: sequences have rows of
  the batch, which move. Tokens are accepted in `apply`, not in `update_state`: under async
  scheduling the last sampled ids are −1 placeholders until just before sampling.

Pass the class with `--logits-processors`, never as an entry point. The V1 runner silently drops
entry-point processors when speculative decoding is on, and repairs the placeholders only for
processors of that flag. The V2 runner would load it into servers without Toolgate.
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
from vllm.v1.worker.gpu.sample import logits_processor as v2

from ..enforcement import spec
from ..grammars import store
from ..tokens.masks import Row
from .apply_masks import make_table
from .engine_sequences import EngineSequences
from .row_numbers import RowNumbers, slots_of
from .structured_output import EnforcementGrammar
from .token_history import TokenHistory

logger = init_logger(__name__)


@dataclass(slots=True)
class _Sequence:
    """One sequence in the batch."""

    grammar: EnforcementGrammar
    output: list[int]
    """Its tokens. On the V1 runner vLLM's own list, which vLLM extends."""
    prompt: int = 0
    """Number of tokens of the prompt, on the V2 runner."""
    accepted: int = 0

    def next_row(self) -> Row:
        """Accept the new tokens; the tokens allowed next. An error ends this sequence only."""
        grammar, new = self.grammar, self.output[self.accepted :]
        if self.accepted > len(self.output):
            grammar.fail(
                f"vLLM's output list shrank from {self.accepted} to {len(self.output)} tokens; "
                "the adapter logits_processor does not support rollback"
            )
        # Accepted drafts may go on after the end of the turn. vLLM drops what is there.
        elif not grammar.accept_tokens("", new) and not grammar.is_terminated():
            grammar.fail(f"vLLM sampled a masked token, among the last {len(new)} tokens")
        self.accepted += len(new)
        return grammar.automaton.row or grammar.next_row()


class EnforcementLogitsProcessor(LogitsProcessor, v2.LogitsProcessor):  # type: ignore[misc]
    def __init__(
        self,
        vllm_config: Any,
        place: torch.device | v2.LogitsProcRequestState,
        is_pin_memory: bool = False,
    ) -> None:
        """`place`: the device on the V1 runner, the states of its slots on the V2 runner."""
        model_config, slots = vllm_config.model_config, slots_of(vllm_config)
        self._enforced = EngineSequences(model_config)
        store.install(self._enforced.store)
        self._numbers = RowNumbers(slots)
        device = place if isinstance(place, torch.device) else place.device
        self._table = make_table(device, model_config.get_vocab_size(), forces=True, slots=slots)
        self._sequences: dict[int, _Sequence] = {}
        """The sequences by row of the batch. On the V2 runner by slot: those that have ended stay
        until their slots are used again, because nothing tells of the end."""
        self._running = set[int]()  # V2: slots of sequences in this step, or the one before
        if device is not place:
            self._states = place
            self._history = TokenHistory(place, 1 + vllm_config.num_speculative_tokens)

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

    def apply(self, logits: torch.Tensor, ctx: v2.LogitsContext | None = None) -> torch.Tensor:
        """`ctx`: the batch, on the V2 runner, which splits one with many drafts."""
        if ctx is not None:
            indices, rows = self._rows_by_slot(ctx, len(logits))
        else:
            indices = [*self._sequences]
            rows = [each.next_row() for each in self._sequences.values()]
        if rows:
            self._table.apply(logits, indices, self._numbers.number(rows))
        return logits

    # --- the V1 model runner ---

    def is_argmax_invariant(self) -> bool:
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        if batch_update is None:
            return
        sequences = self._sequences
        for index in batch_update.removed:
            sequences.pop(index, None)
        for index, params, _, output in batch_update.added:
            self._add(index, params, output)
        for source, target, direction in batch_update.moved:
            moved, other = sequences.pop(source, None), sequences.pop(target, None)
            if moved is not None:
                sequences[target] = moved
            if other is not None and direction is MoveDirectionality.SWAP:
                sequences[source] = other
        store.report_sequences(len(sequences))

    # --- the V2 model runner ---

    def add_request(self, req_idx: int, sampling_params: SamplingParams) -> bool:
        prompt = int(self._states.prompt_len.np[req_idx])
        self._running.add(req_idx)
        return self._add(req_idx, sampling_params, [], prompt)

    def apply_staged_writes(self) -> None:
        self._history.begin_step(expected=bool(self._running))
        self._running = set()
        store.report_sequences(0)

    def _rows_by_slot(self, ctx: v2.LogitsContext, count: int) -> tuple[list[int], list[Row]]:
        """Return rows of logits, of which there are `count`, and the tokens allowed in each."""
        slots, inputs = ctx.idx_mapping_np.tolist(), dict[int, list[int]]()
        if self._sequences.keys().isdisjoint(slots):
            return [], []
        if count > len(slots):
            # Wait for the forward pass: nothing before it has all drafts.
            both = torch.stack((ctx.expanded_idx_mapping, ctx.input_ids)).tolist()
            for slot, token in zip(*both, strict=True):
                inputs.setdefault(slot, []).append(token)
            slots = [*inputs]
        at, indices, rows = 0, list[int](), list[Row]()
        for slot in slots:
            drafts = inputs[slot][1:] if inputs else ()
            if (ours := self._sequences.get(slot)) is not None:
                self._history.update(ours.output, slot, ours.prompt)
                indices.append(at)
                rows.append(ours.next_row())
                if drafts:
                    indices += range(at + 1, at + 1 + len(drafts))
                    rows[-1:] = ours.grammar.draft_rows(drafts)
                self._running.add(slot)
            at += 1 + len(drafts)
        store.report_sequences(len(self._running))
        return indices, rows

    # --- both ---

    def _add(self, at: int, params: SamplingParams, output: list[int], prompt: int = 0) -> bool:
        """Return False for a request without enforcement. A sequence whose grammar could not be
        created, for any reason, ends with an error."""
        self._sequences.pop(at, None)
        try:
            constraints = spec.from_extra_args(params.extra_args, params.seed)
            if constraints is None:
                return False
            grammar = self._enforced.create_grammar(constraints)
        except Exception as error:  # noqa: BLE001 - an exception would end the whole engine
            logger.error("Toolgate: cannot enforce a sequence, ending it with an error: %r", error)
            grammar = self._enforced.create_failed()
        self._sequences[at] = _Sequence(grammar, output, prompt)
        return True
