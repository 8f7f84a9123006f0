"""The persistent batch of vLLM's V1 model runner, with the tokens that were sampled last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from vllm.v1.sample.logits_processor import LogitsProcessors
from vllm.v1.worker.gpu_input_batch import CachedRequestState, InputBatch

from tests.support.request_state import new_request_state
from toolgate_backend.tokens.masks import Row

from .cpu_times import CpuTimes
from .device import wait_until
from .processor import HostProcessor

NO_TOKEN = -1


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
        processors = [] if processor is None else [processor.processor]
        self._batch = InputBatch(
            max_num_reqs=scheduler.max_num_seqs,
            max_model_len=length,
            max_num_batched_tokens=scheduler.max_num_batched_tokens,
            device=torch.device("cpu"),
            vocab_size=config.model_config.get_vocab_size(),
            block_sizes=[cache.block_size],
            max_num_blocks_per_req=[length // cache.block_size],
            logitsprocs=LogitsProcessors(processors),
            logitsprocs_need_output_token_ids=bool(processors),
        )
        self._processor = processor
        if processor is not None:
            times.watch(self._batch, "update_async_output_token_ids", "worker")
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

    def masks(self) -> dict[int, Row]:
        """What the logits processor applies to each row, once the last tokens are there."""
        self._batch.update_async_output_token_ids()
        if self._processor is None or not self._batch.num_reqs:
            return {}
        return self._processor.apply(self._batch.num_reqs)

    def sampled(self, tokens: Sequence[Sequence[int]], ready: float) -> None:
        """Keep the tokens of each row. Until they are ready, their places are taken."""
        batch, requests = self._batch, self.requests
        for row, request in enumerate(requests):
            if tokens[row]:
                self._states[request].output_token_ids.append(NO_TOKEN)
                batch.num_tokens_no_spec[row] += 1
        batch.prev_req_id_to_index = {
            request: row for row, request in enumerate(requests) if tokens[row]
        }
        column = [each[0] if each else NO_TOKEN for each in tokens]
        batch.set_async_sampled_token_ids(torch.tensor(column)[:, None], _Copied(ready))
