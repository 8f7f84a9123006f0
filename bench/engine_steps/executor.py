"""An executor without workers: it writes prepared responses, and checks them against the masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from vllm.v1.executor.abstract import Executor
from vllm.v1.kv_cache_interface import FullAttentionSpec
from vllm.v1.outputs import EMPTY_MODEL_RUNNER_OUTPUT, ModelRunnerOutput

from toolgate_backend.tokens.masks import Row

from .batch import Batch
from .cpu_times import CpuTimes
from .device import Device, wait_until
from .options import Kind
from .processor import HostProcessor, allows

BLOCK_SIZE = 16
BITMASK_KINDS = ("strict", "structured_output")
CACHE_BYTES = 128 << 20
"""32,768 blocks of the layer below, enough for 256 sequences without preemption."""
WORKER_ANSWERS: dict[str, list[Any]] = {
    "get_kv_cache_spec": [
        {
            "layer": FullAttentionSpec(
                block_size=BLOCK_SIZE, num_kv_heads=1, head_size=64, dtype=torch.float16
            )
        }
    ],
    "determine_available_memory": [CACHE_BYTES],
    "get_supported_kv_cache_layouts": [["NHD"]],
}


class MaskedToken(AssertionError):
    """A mask forbids a token of the response, or there is none where one is needed."""


@dataclass
class Response:
    """One response that is being written."""

    tokens: Sequence[int]
    kind: Kind
    number: int = 0
    """Its place in the list of all responses."""
    uncomputed: int = 0
    """Tokens of the prompt that have not been computed."""
    written: int = 0
    """Tokens written, those after the end included."""

    @property
    def ended(self) -> bool:
        return self.written > len(self.tokens)


class _Sampled(Future):  # type: ignore[type-arg]  # vLLM's futures have no type
    """The sampled tokens, which are there when the device is done."""

    def __init__(self, output: Any, ready: float) -> None:
        super().__init__()
        self._output, self._ready = output, ready

    def done(self) -> bool:
        return True

    def result(self, timeout: float | None = None) -> Any:
        wait_until(self._ready)
        return self._output


class FakeExecutor(Executor):  # type: ignore[misc]  # vLLM is not type-checked
    def __init__(
        self, config: Any, device: Device, times: CpuTimes, processor: HostProcessor | None
    ) -> None:
        self._device = device
        self._plain = Batch(config, None, times)
        self._processed = Batch(config, processor, times) if processor else self._plain
        self._batch = self._plain
        self._responses: dict[str, Response] = {}
        self._scheduled: Any = None
        self.checked = 0
        """Tokens that were looked up in a mask."""
        super().__init__(config)

    def _init_executor(self) -> None:
        pass

    @classmethod
    def supports_async_scheduling(cls) -> bool:
        return True

    def collective_rpc(self, method: Any, *_args: Any, **_options: Any) -> list[Any]:
        return WORKER_ANSWERS.get(method, [])

    def check_health(self) -> None:
        pass

    def serve(self, kind: Kind) -> None:
        """A server has a logits processor or not."""
        self._batch = self._processed if kind == "logits_processor" else self._plain

    def begin(self, request: str, response: Response) -> None:
        self._responses[request] = response

    def execute_model(self, scheduled: Any, non_block: bool = False) -> Any:
        """Queue the forward pass. vLLM calls `sample_tokens` next, if there is anything to do."""
        self._scheduled = scheduled
        for request in scheduled.finished_req_ids:
            self._responses.pop(request, None)
        for new in scheduled.scheduled_new_reqs:
            response = self._responses[new.req_id]
            response.uncomputed = len(new.prompt_token_ids) - new.num_computed_tokens
        self._batch.update(scheduled)
        self._device.prepare()
        done: Future[Any] = Future()
        if scheduled.num_scheduled_tokens:
            self._device.queue(self._device.work.forward)
            done.set_result(None)
        else:
            done.set_result(EMPTY_MODEL_RUNNER_OUTPUT)
        return done if non_block else done.result()

    def sample_tokens(self, grammar_output: Any, non_block: bool = False) -> Any:
        masks = self._batch.masks()
        ids = self._batch.requests
        sampled = [self._sample(request) for request in ids]
        self._check_bitmask(ids, sampled, grammar_output)
        self._check_masks(ids, sampled, masks)
        ready = self._device.queue(self._device.work.sample)
        self._batch.sampled(sampled, ready)
        output = ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={request: index for index, request in enumerate(ids)},
            sampled_token_ids=sampled,
        )
        future = _Sampled(output, ready)
        return future if non_block else future.result()

    def _sample(self, request: str) -> list[int]:
        """The next token, if the step completes the prompt. After the end it is the last one
        again: under async scheduling one more step is queued, and its token dropped."""
        response = self._responses[request]
        response.uncomputed -= self._scheduled.num_scheduled_tokens[request]
        if response.uncomputed > 0:
            return []
        response.written += 1
        return [response.tokens[min(response.written, len(response.tokens)) - 1]]

    def _check_bitmask(
        self, ids: Sequence[str], sampled: Sequence[Sequence[int]], grammar_output: Any
    ) -> None:
        """Look up the tokens of all requests for which vLLM computes a bitmask, together."""
        masked = grammar_output.structured_output_request_ids if grammar_output else ()
        row_of = {request: row for row, request in enumerate(masked)}
        rows, tokens = [], []
        for request, token in zip(ids, sampled, strict=True):
            response = self._responses[request]
            if token and response.kind in BITMASK_KINDS and not response.ended:
                if request not in row_of:
                    raise MaskedToken(f"token {response.written} of {request} has no mask")
                rows.append(row_of[request])
                tokens.append(token[0])
        if rows:
            at = np.array(tokens)
            allowed = grammar_output.grammar_bitmask[rows, at >> 5] >> (at & 31) & 1
            if not allowed.all():
                wrong = masked[rows[int(np.flatnonzero(allowed == 0)[0])]]
                raise MaskedToken(f"token {self._responses[wrong].written} of {wrong} is masked")
            self.checked += len(tokens)

    def _check_masks(
        self, ids: Sequence[str], sampled: Sequence[Sequence[int]], masks: Mapping[int, Row]
    ) -> None:
        """Look up the tokens of all requests for which the logits processor computes masks."""
        for row, (request, token) in enumerate(zip(ids, sampled, strict=True)):
            response = self._responses[request]
            if token and response.kind == "logits_processor" and not response.ended:
                if row not in masks or not allows(masks[row], token[0]):
                    raise MaskedToken(f"token {response.written} of {request} is masked")
                self.checked += 1

    def shutdown(self) -> None:
        pass
