"""Application of masks to rows of logits, with few tensor operations for all rows together."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
import xgrammar

from ..tokens import masks
from ..tokens.masks import BitmaskRow
from .staging import Staging

FORBIDDEN = float("-inf")
CACHED_MASKS = 128
"""Maximum number of unpacked masks in the cache. Inside a string, most masks equal the previous
step's, and other sequences inside a string have the same one."""
BATCHED_ENTRIES = 4096
"""Maximum number of entries up to which rows with different masks are set in one operation, because
a torch operation costs more than that many entries. Larger masks are set in one operation for all
rows that share the mask."""

KERNEL_ROWS = (1, 2, 16)
"""Numbers of rows for which Triton compiles different kernels."""

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
    """`pin_memory`: copy to the device from page-locked memory, see staging.py."""

    def __init__(self, device: torch.device, *, pin_memory: bool = False) -> None:
        self._device = device
        self._staging = Staging(device) if pin_memory and device.type == "cuda" else None
        self._unpacked = lru_cache(CACHED_MASKS)(self._unpack)

    def compile_kernels(self, vocabulary: int) -> None:
        """Triton compiles a kernel at its first use, which takes half a second, and again for one
        row and for multiples of 16 rows. On a GPU, all of them are used here."""
        if self._device.type == "cpu":
            return
        mask = masks.Bits(masks.pack(np.arange(2), vocabulary))
        for rows in KERNEL_ROWS:
            logits = torch.zeros(rows, vocabulary, device=self._device)
            self.apply(logits, [(row, mask) for row in range(rows)])

    def apply(self, logits: torch.Tensor, rows: Iterable[tuple[int, masks.Mask]]) -> None:
        """Apply in place. The shape of `logits` is (rows, vocabulary)."""
        if self._staging is not None:
            self._staging.begin()
        self._apply(logits, rows)
        if self._staging is not None:
            self._staging.end()

    def _apply(self, logits: torch.Tensor, rows: Iterable[tuple[int, masks.Mask]]) -> None:
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
        return self._on_device(np.asarray(numbers, np.int64))

    def _on_device(self, numbers: npt.NDArray[Any]) -> torch.Tensor:
        if self._staging is not None:
            return self._staging.copy(numbers)
        return torch.from_numpy(numbers).to(self._device)

    def _apply_bitmasks(self, logits: torch.Tensor, rows: list[tuple[int, BitmaskRow]]) -> None:
        """Apply bitmasks with one kernel call for the batch."""
        indices = np.array([index for index, _ in rows], dtype=np.int32)
        bitmask = np.zeros((logits.shape[0], len(rows[0][1])), dtype=np.int32)
        for index, row in rows:
            bitmask[index] = row
        xgrammar.apply_token_bitmask_inplace(
            logits, self._on_device(bitmask), indices=self._on_device(indices)
        )
