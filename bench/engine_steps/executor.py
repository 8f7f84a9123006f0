"""An executor without workers: it writes prepared responses, and checks them against the masks. The
batch is the persistent one of vLLM's V1 model runner, with the tokens that were sampled last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from vllm.v1.executor.abstract import Executor
from vllm.v1.kv_cache_interface import FullAttentionSpec
from vllm.v1.outputs import EMPTY_MODEL_RUNNER_OUTPUT, ModelRunnerOutput
from vllm.v1.sample.logits_processor import LogitsProcessors
from vllm.v1.worker.gpu_input_batch import CachedRequestState, InputBatch

from tests.support.request_state import new_request_state
from toolgate_backend.tokens.masks import Row

from .blocks import Kind
from .clocks import CpuTimes, Device, wait_until
from .host_worker import HostMasks, HostProcessor

NO_TOKEN = -1
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


class _Copied:
    """The event that vLLM waits for before it reads sampled tokens."""

    def __init__(self, ready: float) -> None:
        self._ready = ready

    def synchronize(self) -> None:
        wait_until(self._ready)


class Batch:
    """The calls are those of `GPUModelRunner` under asynchronous scheduling, without preemption."""

    def __init__(self, config: Any, processor: HostProcessor | None, times: CpuTimes) -> None:
        scheduler, cache = config.scheduler_config, config.cache_config
        length = config.model_config.max_model_len
        self._batch = InputBatch(
            max_num_reqs=scheduler.max_num_seqs,
            max_model_len=length,
            max_num_batched_tokens=scheduler.max_num_batched_tokens,
            device=torch.device("cpu"),
            vocab_size=config.model_config.get_vocab_size(),
            block_sizes=[cache.block_size],
            max_num_blocks_per_req=[length // cache.block_size],
            logitsprocs=LogitsProcessors(),
        )
        self._processor = processor
        self._states: dict[str, CachedRequestState] = {}

    @property
    def requests(self) -> list[str]:
        """By row."""
        return list(self._batch.req_ids)

    def update(self, scheduled: Any) -> None:
        """Raises RuntimeError if a request was preempted."""
        batch, cached = self._batch, scheduled.scheduled_cached_reqs
        for request in scheduled.finished_req_ids:
            self._states.pop(request, None)
            batch.remove_request(request)
        for request in batch.req_id_to_index.keys() - scheduled.num_scheduled_tokens.keys():
            batch.remove_request(request)
        for position, request in enumerate(cached.req_ids):
            row = batch.req_id_to_index.get(request)
            if row is None:
                raise RuntimeError(f"request {request} was preempted, which is not simulated")
            computed, blocks = cached.num_computed_tokens[position], cached.new_block_ids[position]
            self._states[request].num_computed_tokens = computed
            batch.num_computed_tokens_cpu[row] = computed
            if blocks is not None:
                for known, new in zip(self._states[request].block_ids, blocks, strict=True):
                    known.extend(new)
                batch.block_table.append_row(blocks, row)
        for new in scheduled.scheduled_new_reqs:
            self._states[new.req_id] = state = new_request_state(new)
            batch.add_request(state)
        batch.condense()
        batch.refresh_metadata()
        if self._processor is not None:
            self._processor.begin_step(scheduled)

    def masks(self) -> dict[int, Row]:
        """What the logits processor applies to each row, once the last tokens are there."""
        if self._processor is None or not self._batch.num_reqs:
            return {}
        return self._processor.apply(self.requests)

    def sampled(self, tokens: Sequence[Sequence[int]], ready: float) -> None:
        """Keep the tokens of each row. Until they are ready, their places are taken."""
        batch, requests = self._batch, self.requests
        if self._processor is not None:
            self._processor.sampled(requests, tokens, ready)
        for row, request in enumerate(requests):
            if tokens[row]:
                self._states[request].output_token_ids += [NO_TOKEN] * len(tokens[row])
                batch.num_tokens_no_spec[row] += len(tokens[row])
        batch.prev_req_id_to_index = {
            request: row for row, request in enumerate(requests) if tokens[row]
        }
        column = [each[0] if each else NO_TOKEN for each in tokens]
        batch.set_async_sampled_token_ids(torch.tensor(column)[:, None], _Copied(ready))


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
        self._batch, self._masks = self._plain, HostMasks(config, times)
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
        if grammar_output is not None:
            drafts = self._scheduled.scheduled_spec_decode_tokens
            self._masks.apply(ids, grammar_output, drafts)
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
        """The drafts that the response has, and the next token, if the step completes the prompt.
        After the end it is the last one again: under async scheduling one more step is queued, and
        its token dropped."""
        response, tokens = self._responses[request], list[int]()
        response.uncomputed -= self._scheduled.num_scheduled_tokens[request]
        if response.uncomputed > 0:
            return tokens
        drafts = self._scheduled.scheduled_spec_decode_tokens.get(request, ())
        for draft in (*drafts, NO_TOKEN):
            response.written += 1
            tokens.append(response.tokens[min(response.written, len(response.tokens)) - 1])
            if tokens[-1] != draft or response.written >= len(response.tokens):
                break
        return tokens

    def _check_bitmask(
        self, ids: Sequence[str], sampled: Sequence[Sequence[int]], grammar_output: Any
    ) -> None:
        """Look up the tokens of all requests for which vLLM computes a bitmask, together."""
        masked = grammar_output.structured_output_request_ids if grammar_output else ()
        drafts = self._scheduled.scheduled_spec_decode_tokens
        positions = [1 + len(drafts.get(request, ())) for request in masked]
        row_of = dict(zip(masked, accumulate(positions, initial=0), strict=False))
        rows, tokens, places = list[int](), list[int](), list[tuple[int, str]]()
        for request, some in zip(ids, sampled, strict=True):
            response = self._responses[request]
            if some and response.kind in BITMASK_KINDS and not response.ended:
                if request not in row_of:
                    raise MaskedToken(f"token {response.written} of {request} has no mask")
                first = response.written - len(some) + 1
                rows += range(row_of[request], row_of[request] + len(some))
                tokens += some
                places += [(first + at, request) for at in range(len(some))]
        if grammar_output is not None:
            allowed = self._masks.allowed(grammar_output.grammar_bitmask, rows, tokens)
            if not allowed.all():
                place, wrong = places[int(np.flatnonzero(allowed == 0)[0])]
                raise MaskedToken(f"token {place} of {wrong} is masked")
            self.checked += len(tokens)

    def _check_masks(
        self, ids: Sequence[str], sampled: Sequence[Sequence[int]], masks: Mapping[int, Row]
    ) -> None:
        """Look up the tokens of all requests for which the logits processor computes masks."""
        for row, (request, token) in enumerate(zip(ids, sampled, strict=True)):
            response = self._responses[request]
            if token and response.kind == "logits_processor" and not response.ended:
                if row not in masks or not masks[row].allows(token[0]):
                    raise MaskedToken(f"token {response.written} of {request} is masked")
                self.checked += 1

    def shutdown(self) -> None:
        pass
