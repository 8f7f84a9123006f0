"""Application of rows of bitmasks to logits, for all sequences of a batch together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from ..tokens.rows import Row
from .listed_masks import ListedMasks


class MaskApplier(Protocol):
    def apply(self, logits: torch.Tensor, indices: Sequence[int], rows: Sequence[Row]) -> None:
        """Forbid in `logits[indices[i]]` what `rows[i]` forbids, in place. The shape of `logits` is
        (sequences, vocabulary).

        A row with a single token forces this token whatever its logit was: a ban by another
        processor must not leave the sequence without any token."""


def make_applier(
    device: torch.device, vocabulary_size: int, *, pin_memory: bool = False
) -> MaskApplier:
    """`pin_memory`: copy to the device from page-locked memory, see staging.py."""
    if device.type == "cpu":
        return ListedMasks()
    from .device_masks import DeviceMasks  # imports Triton, which machines without a GPU may lack

    masks = DeviceMasks(device, vocabulary_size, pin_memory=pin_memory)
    masks.compile_kernel()
    return masks
