"""Copies of arrays to a GPU that wait for nothing.

A copy from pageable memory, and the first use of page-locked memory, wait until the GPU has done
its earlier work, which is the forward pass. So arrays are written to page-locked memory that is
kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

BYTES = 1 << 20
"""Size at first. It is doubled when the copies of one round need more."""
ALIGNMENT = 64


class Staging:
    """Page-locked memory for the copies of one round, between `begin` and `end`."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._memory = self._allocate(BYTES)
        self._used = 0
        self._copied = torch.cuda.Event()

    def begin(self) -> None:
        """Waits for the copies of the round before, which are usually done."""
        self._copied.synchronize()
        self._used = 0

    def copy(self, numbers: npt.NDArray[Any]) -> torch.Tensor:
        """A tensor on the GPU, valid for work that is queued later."""
        if self._used + numbers.nbytes > len(self._memory):
            # Copies of this round still read the old memory. torch keeps it until they are done.
            self._memory = self._allocate(2 * max(len(self._memory), numbers.nbytes))
            self._used = 0
        end = self._used + numbers.nbytes
        part = self._memory[self._used : end].view(torch.from_numpy(numbers[:0]).dtype)
        part = part.view(numbers.shape)
        np.copyto(part.numpy(), numbers)
        self._used = -(-end // ALIGNMENT) * ALIGNMENT
        return part.to(self._device, non_blocking=True)

    def end(self) -> None:
        self._copied.record()

    def _allocate(self, size: int) -> torch.Tensor:
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)
