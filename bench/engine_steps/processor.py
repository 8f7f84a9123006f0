"""The adapter logits_processor without a GPU: what the host does for it.

Its logits are on torch's device `meta`, which has no memory. It therefore takes the path of a GPU,
and the operations on tensors compute nothing. Their time is left out, because it is not that of
launching kernels. Arrays that would be copied to the GPU are copied into the host's memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from toolgate_backend.adapters import device_masks
from toolgate_backend.adapters.logits_processor import EnforcementLogitsProcessor
from toolgate_backend.tokens.masks import Row

from .clocks import CpuTimes

META = torch.device("meta")
STAGED_BYTES = 8 << 20


class _HostOnly(TorchFunctionMode):  # type: ignore[misc]  # torch is not type-checked
    """Leaves out the time of operations on tensors, but not that of copies to the device."""

    def __init__(self, times: CpuTimes) -> None:
        super().__init__()
        self._times = times
        self._staged = np.empty(STAGED_BYTES, np.uint8)

    def __torch_function__(
        self, function: Any, _types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        began = time.thread_time_ns()
        result = function(*args, **kwargs or {})
        source = args[0].numpy() if function is torch.Tensor.to else None
        self._times.leave_out("worker", time.thread_time_ns() - began)
        if source is not None:
            np.copyto(self._staged[: source.nbytes].view(source.dtype), source.ravel())
        return result


class HostProcessor:
    def __init__(self, config: Any, times: CpuTimes) -> None:
        device_masks.mask_rows = _NoKernel()
        self.processor = EnforcementLogitsProcessor(config, META, False)
        times.watch(self.processor, "update_state", "worker")
        times.watch(self.processor, "apply", "worker")
        self._host_only = _HostOnly(times)
        self._size = config.model_config.get_vocab_size()
        self._masks: dict[int, Row] = {}
        applier: Any = self.processor._applier
        applier.apply = self._noting(applier.apply)

    def apply(self, rows: int) -> dict[int, Row]:
        """The masks of the rows that have one."""
        self._masks = {}
        logits = torch.empty(rows, self._size, device=META)
        with self._host_only:
            self.processor.apply(logits)
        return self._masks

    def _noting(self, apply: Callable[..., None]) -> Callable[..., None]:
        def noting(logits: Any, indices: Sequence[int], rows: Sequence[Row]) -> None:
            self._masks = dict(zip(indices, rows, strict=True))
            apply(logits, indices, rows)

        return noting


class _NoKernel:
    """Takes the place of a kernel."""

    def __getitem__(self, grid: object) -> Callable[..., None]:
        return lambda *_arguments, **_options: None


def allows(row: Row, token: int) -> bool:
    return bool(row.words[token >> 5] >> (token & 31) & 1)
