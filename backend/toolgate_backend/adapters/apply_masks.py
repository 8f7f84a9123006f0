"""Application of masks to rows of logits, with few tensor operations for all rows together."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
import xgrammar

from ..tokens import masks
from ..tokens.masks import BitmaskRow

FORBIDDEN = float("-inf")
CACHED_MASKS = 128
"""Maximum number of unpacked masks in the cache. Inside a string, most masks equal the previous
step's, and other sequences inside a string have the same one."""
BATCHED_ENTRIES = 4096
"""Maximum number of entries up to which rows with different masks are set in one operation, because
a torch operation costs more than that many entries. Larger masks are set in one operation for all
rows that share the mask."""

TokenList = masks.Allow | masks.Forbid
"""A mask as the list of its allowed or of its forbidden tokens, whichever is shorter."""
Operation = Literal["forbid", "allow", "force"]
"""`force` allows a single token whatever its logit was. A ban by another processor must not leave
the row without any token."""


def _operation(mask: TokenList) -> Operation:
    if isinstance(mask, masks.Forbid):
        return "forbid"
    return "allow" if len(mask.ids) > 1 else "force"


class MaskApplier:
    """`pin_memory`: copy to the device from page-locked memory. The copy of pageable memory would
    wait until the device has done all earlier work, which is the forward pass."""

    def __init__(self, device: torch.device, *, pin_memory: bool = False) -> None:
        self._device, self._pin_memory = device, pin_memory
        self._unpacked = lru_cache(CACHED_MASKS)(self._unpack)

    def apply(self, logits: torch.Tensor, rows: Iterable[tuple[int, masks.Mask]]) -> None:
        """Apply in place. The shape of `logits` is (rows, vocabulary)."""
        rows_by_mask: dict[TokenList, list[int]] = {}
        bitmasks: list[tuple[int, BitmaskRow]] = []
        for index, mask in rows:
            if not isinstance(mask, masks.Bits):
                rows_by_mask.setdefault(mask, []).append(index)
            elif self._device.type == "cpu":
                # xgrammar's CPU kernel takes 490 µs for a row of 151,936 entries if few tokens are
                # allowed. Setting the listed entries is faster.
                unpacked = self._unpacked(mask.words.tobytes(), logits.shape[1])
                rows_by_mask.setdefault(unpacked, []).append(index)
            else:
                bitmasks.append((index, mask.words))
        batches: dict[Operation, list[tuple[int, TokenList]]] = {}
        for listed, indices in rows_by_mask.items():
            if len(listed.ids) * len(indices) > BATCHED_ENTRIES:
                entries = self._tensor(indices)[:, None], self._tensor(listed.ids)
                self._set(logits, indices, entries, _operation(listed))
            else:
                batch = batches.setdefault(_operation(listed), [])
                batch.extend((index, listed) for index in indices)
        for operation, batch in batches.items():
            indices = [index for index, _ in batch]
            repeated = np.repeat(indices, [len(listed.ids) for _, listed in batch])
            tokens = np.concatenate([listed.ids for _, listed in batch])
            self._set(logits, indices, (self._tensor(repeated), self._tensor(tokens)), operation)
        if bitmasks:
            self._apply_bitmasks(logits, bitmasks)

    def _unpack(self, packed: bytes, vocabulary: int) -> TokenList:
        words = np.frombuffer(packed, dtype=np.int32)
        few_allowed = np.bitwise_count(words.view(np.uint32)).sum() * 2 < vocabulary
        ids = masks.unpack(words if few_allowed else ~words)
        return (masks.Allow if few_allowed else masks.Forbid)(ids[ids < vocabulary])

    def _set(
        self,
        logits: torch.Tensor,
        rows: list[int],
        entries: tuple[torch.Tensor, torch.Tensor],
        operation: Operation,
    ) -> None:
        """`entries` are the row and token indices that the masks of these rows list.

        What is assigned is a tensor of the device: torch copies a number to the GPU when it
        assigns it, and waits for that."""
        if operation == "forbid":
            logits[entries] = logits.new_full((), FORBIDDEN)
            return
        kept = logits[entries] if operation == "allow" else logits.new_zeros(())
        logits.index_fill_(0, self._tensor(rows), FORBIDDEN)
        logits[entries] = kept

    def _tensor(self, numbers: npt.ArrayLike) -> torch.Tensor:
        return self._on_device(torch.from_numpy(np.asarray(numbers, np.int64)))

    def _on_device(self, tensor: torch.Tensor) -> torch.Tensor:
        if self._device.type == "cpu":
            return tensor
        if self._pin_memory:
            tensor = tensor.pin_memory()
        return tensor.to(self._device, non_blocking=True)

    def _apply_bitmasks(self, logits: torch.Tensor, rows: list[tuple[int, BitmaskRow]]) -> None:
        """Apply bitmasks with one kernel call for the batch."""
        indices = [index for index, _ in rows]
        words = np.stack([row for _, row in rows])
        bitmask = torch.zeros(logits.shape[0], words.shape[1], dtype=torch.int32)
        bitmask[indices] = torch.from_numpy(words)
        xgrammar.apply_token_bitmask_inplace(logits, self._on_device(bitmask), indices=indices)
