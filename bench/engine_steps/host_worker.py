"""What the worker does for enforcement, without a GPU.

Logits are on torch's device `meta`, which has no memory. Both adapters therefore take the path of a
GPU: arrays are made and staged, copies and kernels are launched, but those compute nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from vllm.v1.worker.gpu import structured_outputs

from toolgate_backend.adapters import device_masks, mask_worker
from toolgate_backend.adapters.device_masks import DeviceMasks
from toolgate_backend.adapters.logits_processor import EnforcementLogitsProcessor
from toolgate_backend.adapters.row_numbers import NumberedRows, slots_of
from toolgate_backend.tokens.masks import Row, words_per_row

from .blocks import COPIED
from .clocks import CpuTimes, wait_until

META = torch.device("meta")
COPY_FUNCTIONS = "async_tensor_h2d", "async_copy_to_gpu"
"""The names in several releases of vLLM."""


class HostProcessor:
    """The adapter logits_processor, in the calls of vLLM's V2 model runner. The tokens of requests
    are on the CPU instead of the GPU."""

    def __init__(self, config: Any, times: CpuTimes) -> None:
        device_masks.mask_rows = _NoKernel()
        slots, length = config.scheduler_config.max_num_seqs, config.model_config.max_model_len
        self._size = config.model_config.get_vocab_size()
        self._tokens = torch.zeros((slots, length), dtype=torch.int32)
        self._lengths = torch.zeros(slots, dtype=torch.int32)
        self._prompts = np.zeros(slots, np.int32)
        states = SimpleNamespace(
            device=META,
            all_token_ids=SimpleNamespace(gpu=self._tokens),
            total_len=SimpleNamespace(gpu=self._lengths),
            prompt_len=SimpleNamespace(np=self._prompts),
        )
        self.processor = EnforcementLogitsProcessor(config, states)
        for method in ("add_request", "apply_staged_writes", "apply"):
            times.watch(self.processor, method, "worker")
        self._ready = _Ready()
        history: Any = self.processor._history
        history._copied = self._ready
        self._masks: dict[int, Row] = {}
        processor: Any = self.processor
        rows_by_slot = processor._rows_by_slot

        def noting(*arguments: Any) -> Any:
            found = rows_by_slot(*arguments)
            self._masks = dict(zip(*found, strict=True))
            return found

        processor._rows_by_slot = noting
        self._slots: dict[str, int] = {}
        self._free = [*range(slots)]

    def begin_step(self, scheduled: Any) -> None:
        for request in scheduled.finished_req_ids & self._slots.keys():
            self._free.append(self._slots.pop(request))
        for new in scheduled.scheduled_new_reqs:
            slot = self._slots[new.req_id] = self._free.pop()
            self._prompts[slot] = self._lengths[slot] = len(new.prompt_token_ids)
            self.processor.add_request(slot, new.sampling_params)
        self.processor.apply_staged_writes()

    def apply(self, requests: Sequence[str]) -> dict[int, Row]:
        """The masks of the rows that have one."""
        self._masks = {}
        logits = torch.empty(len(requests), self._size, device=META)
        slots = np.array([self._slots[request] for request in requests])
        self.processor.apply(logits, SimpleNamespace(idx_mapping_np=slots))
        return self._masks

    def sampled(
        self, requests: Sequence[str], tokens: Sequence[Sequence[int]], ready: float
    ) -> None:
        self._ready.at = ready
        for request, some in zip(requests, tokens, strict=True):
            slot = self._slots[request]
            for token in some:
                self._tokens[slot, self._lengths[slot]] = token
                self._lengths[slot] += 1


class _Ready:
    """The event for which the adapter waits before it reads the last tokens."""

    at = 0.0

    def record(self) -> None: ...

    def synchronize(self) -> None:
        wait_until(self.at)


class HostMasks:
    """The part of vLLM's V2 model runner that applies bitmasks, and the adapter structured_output's
    part of it."""

    def __init__(self, config: Any, times: CpuTimes) -> None:
        import vllm.v1.worker.cpu.shm  # noqa: F401  # placeholders for CUDA's streams

        structured_outputs._apply_grammar_bitmask_kernel = device_masks.mask_rows = _NoKernel()
        for copy in set(COPY_FUNCTIONS) & vars(structured_outputs).keys():
            setattr(structured_outputs, copy, _staging(getattr(structured_outputs, copy)))
        positions = 1 + config.num_speculative_tokens
        self._size = config.model_config.get_vocab_size()
        given = {
            "max_num_logits": config.scheduler_config.max_num_seqs * positions,
            "vocab_size": self._size,
            "device": META,
            "mask_stride": positions,
            "num_bonus_tokens": 1,
        }
        known = inspect.signature(structured_outputs.StructuredOutputsWorker).parameters
        self._worker = structured_outputs.StructuredOutputsWorker(
            **{name: value for name, value in given.items() if name in known}
        )
        slots = slots_of(config)
        table = DeviceMasks(META, self._size, forces=False, slots=slots)
        mask_worker.hook(structured_outputs.StructuredOutputsWorker, mask_worker.read_v2, table)
        times.watch(self._worker, "apply_grammar_bitmask", "worker")
        self._rows = np.empty((slots, words_per_row(self._size)), np.int32)
        """A copy of what the table has."""

    def apply(
        self, requests: Sequence[str], grammar_output: Any, drafts: Mapping[str, Sequence[int]]
    ) -> None:
        counts = np.array([len(drafts.get(request, ())) for request in requests], np.int32)
        places = np.zeros(len(requests) + 1, np.int32)
        np.cumsum(counts + 1, out=places[1:])
        batch = SimpleNamespace(
            req_ids=requests,
            num_reqs=len(requests),
            num_draft_tokens=int(counts.sum()),
            num_draft_tokens_per_req=counts if drafts else None,
            cu_num_logits_np=places,
            cu_num_logits=torch.empty(places.shape, dtype=torch.int32, device=META),
        )
        self._worker.apply_grammar_bitmask(
            torch.empty(int(places[-1]), self._size, device=META),
            batch,
            grammar_output.structured_output_request_ids,
            grammar_output.grammar_bitmask,
        )

    def allowed(
        self, sent: Any, masks: Sequence[int], tokens: Sequence[int]
    ) -> npt.NDArray[np.int32]:
        """1 where the mask of the step with this number allows the token beside it. Called for each
        step."""
        rows, places, at = sent, np.array(masks, int), np.array(tokens, int)
        if isinstance(sent, NumberedRows):
            for number, row in enumerate(sent.new, sent.first):
                self._rows[number] = row
            rows, places = self._rows, sent.numbers[places]
        allowed: npt.NDArray[np.int32] = rows[places, at >> 5] >> (at & 31) & 1
        return allowed


def _staging(copy: Callable[..., Any]) -> Callable[..., Any]:
    """With the copy into page-locked memory, which torch keeps from one step to the next."""
    staged = np.empty(0, np.uint8)

    def staging(data: Any, **options: Any) -> Any:
        nonlocal staged
        if isinstance(data, np.ndarray):
            if data.nbytes > staged.nbytes:
                staged = np.empty(data.nbytes, np.uint8)
            np.copyto(staged[: data.nbytes].view(data.dtype).reshape(data.shape), data)
        return copy(data, **options)

    return staging


class CopiedBytes(TorchDispatchMode):  # type: ignore[misc]  # torch is not type-checked
    """Counts what is copied from the host's memory to `meta`."""

    def __init__(self, times: CpuTimes) -> None:
        super().__init__()
        self._times = times

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if function in COPIES:
            source = args[COPIES[function]]
            if source.device.type == "cpu" and result.device == META:
                self._times.count(COPIED, source.nbytes)
        return result


COPIES = {torch.ops.aten.copy_.default: 1, torch.ops.aten._to_copy.default: 0}
"""Torch's operators that copy, and their argument with the source."""


class _NoKernel:
    """Takes the place of a kernel."""

    def __getitem__(self, grid: object) -> Callable[..., None]:
        return lambda *_arguments, **_options: None
