"""Application of masks to logits on a GPU, from a table of rows that lives there.

A row is copied to the table when a sequence first needs it. After that, a step sends three numbers
per sequence, and one kernel gathers the rows and applies them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..tokens.masks import BitmaskRow, unpack, words_per_row
from ..tokens.rows import Row
from . import row_kernel
from .staging import Staging

SLOTS = 2048
"""Rows in the table: 39 MB of the GPU's memory for a vocabulary of 151,936 tokens. Eight tools need
about 40."""


class DeviceMasks:
    def __init__(
        self,
        device: torch.device,
        vocabulary_size: int,
        *,
        pin_memory: bool = False,
        slots: int = SLOTS,
    ) -> None:
        """`pin_memory`: copy to the device from page-locked memory, see staging.py."""
        self._device = device
        self._vocabulary_size = vocabulary_size
        self._staging = Staging(device) if pin_memory and device.type == "cuda" else None
        words = words_per_row(vocabulary_size)
        self._table = torch.zeros((slots, words), dtype=torch.int32, device=device)
        self._slots: dict[Row, int] = {}
        self._held: list[Row | None] = [None] * slots
        """The row in each slot."""
        self._forced = np.full(slots, -1, np.int32)
        """The only token that the row in a slot allows, or -1."""
        self._used = np.zeros(slots, np.int64)
        """The number of the application that used a slot last."""
        self._applied = 0

    def compile_kernel(self) -> None:
        """Triton compiles the kernel at its first use, which takes half a second."""
        logits = torch.zeros(1, self._vocabulary_size, device=self._device)
        self.apply(logits, [0], [Row(bytes(4 * self._table.shape[1]))])

    def apply(self, logits: torch.Tensor, indices: Sequence[int], rows: Sequence[Row]) -> None:
        """As in MaskApplier."""
        if self._staging is not None:
            self._staging.begin()
        for at in range(0, len(rows), len(self._held)):
            part = slice(at, at + len(self._held))
            self._apply(logits, indices[part], rows[part])
        if self._staging is not None:
            self._staging.end()

    def _apply(self, logits: torch.Tensor, indices: Sequence[int], rows: Sequence[Row]) -> None:
        slots = self._slots_of(rows)
        numbers = np.empty((3, len(rows)), np.int32)
        numbers[0], numbers[1], numbers[2] = indices, slots, self._forced[slots]
        width = logits.shape[1]
        row_kernel.mask_rows[len(rows), -(-width // row_kernel.BLOCK)](
            logits,
            width,
            logits.stride(0),
            self._table,
            self._table.shape[1],
            self._on_device(numbers),
            len(rows),
            BLOCK=row_kernel.BLOCK,
        )

    def _slots_of(self, rows: Sequence[Row]) -> list[int]:
        """The slots of these rows, at most as many as the table has. New rows take the slots that
        were unused for longest."""
        self._applied += 1
        known = self._slots
        missing = [row for row in dict.fromkeys(rows) if row not in known]
        if missing:
            self._used[[known[row] for row in rows if row in known]] = self._applied
            free = np.argpartition(self._used, len(missing) - 1)[: len(missing)]
            for slot, row in zip(free.tolist(), missing, strict=True):
                replaced = self._held[slot]
                if replaced is not None:
                    del known[replaced]
                known[row], self._held[slot] = slot, row
                self._forced[slot] = _only_token(row.words, self._vocabulary_size)
            copied = self._on_device(np.stack([row.words for row in missing]))
            self._table.index_copy_(0, self._on_device(free), copied)
        slots = [known[row] for row in rows]
        self._used[slots] = self._applied
        return slots

    def _on_device(self, numbers: npt.NDArray[Any]) -> torch.Tensor:
        if self._staging is not None:
            return self._staging.copy(numbers)
        return torch.from_numpy(numbers).to(self._device)


def _only_token(words: BitmaskRow, vocabulary_size: int) -> int:
    """The only token of the vocabulary that a row allows; -1 if it allows another number."""
    if np.count_nonzero(words) > 2:  # bits beyond the vocabulary may be set in the last one
        return -1
    tokens = unpack(words)
    tokens = tokens[tokens < vocabulary_size]
    return int(tokens[0]) if len(tokens) == 1 else -1
