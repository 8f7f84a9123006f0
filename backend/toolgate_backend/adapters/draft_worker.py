"""The workers' part of forced_drafts.py: vLLM's V2 model runner verifies the scheduler's drafts.

The runner keeps the drafts of the next step in `RequestState.draft_tokens`, where its drafter
leaves them after each step. Here no drafter runs. The drafts that the scheduler sends with a step
are written there before the inputs of the step are prepared.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from vllm.v1.worker.gpu import model_runner
from vllm.v1.worker.gpu.model_runner import GPUModelRunner
from vllm.v1.worker.gpu.spec_decode.speculator import BaseSpeculator

from . import draft_config
from .row_numbers import to_device


class NoDrafter(BaseSpeculator):  # type: ignore[misc]  # vLLM is not type-checked
    """vLLM's interface of a drafter, without drafts."""

    supports_mm_inputs = False
    draft_logits = None  # each draft is certain, so that the rejection sampler needs no probability

    def __init__(self, rows: int, count: int, device: torch.device) -> None:
        self._drafts = torch.zeros((rows, count), dtype=torch.int64, device=device)

    def init_cudagraph_manager(self, cudagraph_mode: Any) -> None: ...

    def capture(self) -> None: ...

    def propose(self, input_batch: Any, *arguments: Any, **more: Any) -> torch.Tensor:
        return self._drafts[: input_batch.num_reqs]


def register() -> None:
    """Replace functions of vLLM's V2 model runner. Called once in a process."""
    own_init, own_prepare = model_runner.init_speculator, GPUModelRunner.prepare_inputs

    def init_speculator(vllm_config: Any, device: Any, req_states: Any) -> Any:
        if not draft_config.is_configured(vllm_config):
            return own_init(vllm_config, device, req_states)
        rows = vllm_config.scheduler_config.max_num_seqs
        return NoDrafter(rows, vllm_config.num_speculative_tokens, device)

    @functools.wraps(own_prepare)
    def prepare_inputs(self: Any, scheduler_output: Any, *others: Any) -> Any:
        scheduled = scheduler_output.scheduled_spec_decode_tokens
        if scheduled and draft_config.is_configured(self.vllm_config):
            place(self.req_states, scheduled, self.device)
        return own_prepare(self, scheduler_output, *others)

    model_runner.init_speculator = init_speculator
    GPUModelRunner.prepare_inputs = prepare_inputs


def place(states: Any, scheduled: Mapping[str, Sequence[int]], device: Any) -> None:
    """Write the drafts of a step into the runner's RequestState."""
    table = np.zeros((len(scheduled), states.draft_tokens.shape[1]), dtype=np.int64)
    for row, drafts in zip(table, scheduled.values(), strict=True):
        row[: len(drafts)] = drafts
    rows = np.array([states.req_id_to_index[each] for each in scheduled], dtype=np.int64)
    sent = functools.partial(to_device, device=device)
    states.draft_tokens[sent(rows)] = sent(table)
