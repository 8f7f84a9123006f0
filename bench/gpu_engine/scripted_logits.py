"""Logits that make a model write prepared responses, whatever its weights are.

The model computes its logits as always. Then the logit of the token that the response has at this
position is set so high that it is sampled, unless a mask forbids it. All of this happens on the
device: the host only copies where the responses of a batch begin, when a request joins or leaves
it. All kinds of requests have this cost, a gather and a scatter of one number per row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch

from bench.engine_steps.blocks import Kind
from bench.engine_steps.executor import Response
from bench.engine_steps.load import PROMPT_TOKENS

HIGH = 10_000.0
"""A logit beside which all others of a model are impossible."""
COPIES = 4
"""Buffers in the host's memory. They are used in turn: none is written while it is copied."""


class Batch(Protocol):
    """The requests of a step. Each has a slot, which is a number below `max_num_seqs`."""

    def moved(self) -> tuple[Sequence[str], Any]:
        """The requests that have another slot than in the step before, and these slots."""

    def slots(self) -> Any:
        """The slot of each row of logits, on the device."""

    def lengths(self) -> Any:
        """Tokens before the one that is sampled, the prompt's included, for each row of logits."""


class V1Batch:
    """Of vLLM's V1 model runner (vllm/v1/worker/gpu_model_runner.py), without drafts. Slots are the
    rows of the persistent batch."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner
        lengths = runner.seq_lens
        self._lengths = getattr(lengths, "gpu", lengths)
        self._slots = torch.arange(len(self._lengths), device=self._lengths.device)
        self._known: list[str] = []

    def moved(self) -> tuple[Sequence[str], Any]:
        requests = list(self._runner.input_batch.req_ids)
        if requests == self._known:
            return (), ()
        self._known = requests
        return requests, np.arange(len(requests))

    def slots(self) -> Any:
        return self._slots[: self._runner.input_batch.num_reqs]

    def lengths(self) -> Any:
        return self._lengths[: self._runner.input_batch.num_reqs]


class V2Batch:
    """Of vLLM's V2 model runner (vllm/v1/worker/gpu/model_runner.py), with a row of logits for each
    draft token as well. Slots are the indices of its request states."""

    def __init__(self, runner: Any) -> None:
        self._batch: Any = None
        self._sample = runner.sample
        runner.sample = self._sampling
        self._known: dict[str, int] = {}

    def _sampling(self, hidden_states: Any, batch: Any, grammar_output: Any) -> Any:
        self._batch = batch
        return self._sample(hidden_states, batch, grammar_output)

    def moved(self) -> tuple[Sequence[str], Any]:
        slots = zip(self._batch.req_ids, self._batch.idx_mapping_np.tolist(), strict=False)
        moved = {request: at for request, at in slots if self._known.get(request) != at}
        self._known.update(moved)
        return [*moved], [*moved.values()]

    def slots(self) -> Any:
        return self._batch.expanded_idx_mapping

    def lengths(self) -> Any:
        return self._batch.positions[self._batch.logits_indices] + 1


class ScriptedLogits:
    """The `Model` of `bench.engine_steps.measurement`."""

    def __init__(self, runner: Any, responses: Sequence[Sequence[int]], length: int) -> None:
        """`length`: the maximum of tokens of a sequence."""
        device = runner.device
        # The token before a response, in a prompt's first parts, and after it is of no interest.
        flat, self._places = [0] * length, list[int]()
        for each in responses:
            self._places.append(len(flat) - PROMPT_TOKENS)
            flat += each
        self._tokens = torch.tensor(flat + [0] * length, dtype=torch.int64, device=device)
        self._starts: dict[str, int] = {}
        self._batch: Batch = V2Batch(runner) if hasattr(runner, "req_states") else V1Batch(runner)
        self._begins = np.zeros(runner.max_num_reqs, np.int64)
        """Where the response in each slot begins, less the tokens of the prompt."""
        self._copies = [torch.from_numpy(self._begins.copy()) for _ in range(COPIES)]
        if device.type != "cpu":
            self._copies = [each.pin_memory() for each in self._copies]
        self._on_device = self._copies[0].to(device)
        self._compute = runner.model.compute_logits
        runner.model.compute_logits = self._scripted

    def serve(self, kind: Kind) -> None:
        self._starts.clear()

    def begin(self, request: str, response: Response) -> None:
        self._starts[request] = self._places[response.number]

    def _scripted(self, *arguments: Any, **options: Any) -> Any:
        logits = self._compute(*arguments, **options)
        if logits is None or not self._starts:
            return logits
        self._update()
        at = self._on_device[self._batch.slots()] + self._batch.lengths()
        return logits.scatter_(1, self._tokens[at][:, None], HIGH)

    def _update(self) -> None:
        requests, slots = self._batch.moved()
        if not requests:
            return
        self._begins[slots] = [self._starts.get(request, 0) for request in requests]
        buffer = self._copies[0]
        self._copies.append(self._copies.pop(0))
        buffer.numpy()[:] = self._begins
        self._on_device.copy_(buffer, non_blocking=True)
