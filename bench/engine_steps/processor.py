"""The adapter logits_processor without a GPU: what the host does for it.

Its logits are on torch's device `meta`, which has no memory. It therefore takes the path of a GPU.
Kernels compute nothing, and arrays that would be copied to the GPU are copied into the host's
memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from toolgate_backend.adapters import device_masks
from toolgate_backend.adapters.logits_processor import EnforcementLogitsProcessor
from toolgate_backend.tokens.masks import Row

from .clocks import CpuTimes

META = torch.device("meta")
STAGED_BYTES = 8 << 20


class HostProcessor:
    def __init__(self, config: Any, times: CpuTimes) -> None:
        device_masks.mask_rows = _NoKernel()
        self.processor = EnforcementLogitsProcessor(config, META, False)
        times.watch(self.processor, "update_state", "worker")
        times.watch(self.processor, "apply", "worker")
        self._staged = np.empty(STAGED_BYTES, np.uint8)
        self._on_device = torch.empty((), dtype=torch.int32, device=META)
        self._size = config.model_config.get_vocab_size()
        self._masks: dict[int, Row] = {}
        applier: Any = self.processor._applier
        applier.apply = self._noting(applier.apply)
        applier._on_device = self._copied

    def apply(self, rows: int) -> dict[int, Row]:
        """The masks of the rows that have one."""
        self._masks = {}
        logits = torch.empty(rows, self._size, device=META)
        self.processor.apply(logits)
        return self._masks

    def _noting(self, apply: Callable[..., None]) -> Callable[..., None]:
        def noting(logits: Any, indices: Sequence[int], rows: Sequence[Row]) -> None:
            self._masks = dict(zip(indices, rows, strict=True))
            apply(logits, indices, rows)

        return noting

    def _copied(self, numbers: npt.NDArray[np.int32]) -> torch.Tensor:
        np.copyto(self._staged[: numbers.nbytes].view(numbers.dtype), numbers.ravel())
        return self._on_device


class _NoKernel:
    """Takes the place of a kernel."""

    def __getitem__(self, grid: object) -> Callable[..., None]:
        return lambda *_arguments, **_options: None


def allows(row: Row, token: int) -> bool:
    return bool(row.words[token >> 5] >> (token & 31) & 1)
