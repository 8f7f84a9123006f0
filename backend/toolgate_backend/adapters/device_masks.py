"""Application of masks to logits on a GPU, from a table of rows that lives there.

A row is copied to the table when a sequence first needs it, and again if the table has begun anew
since then. A step sends three numbers per sequence, and one kernel gathers the rows and applies
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import triton
import triton.language as tl

from ..tokens.masks import Row, unpack, words_per_row

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
        """`pin_memory`: copy to the device from page-locked memory, see `Staging`."""
        self._device = device
        self._vocabulary_size = vocabulary_size
        self._staging = Staging(device) if pin_memory and device.type == "cuda" else None
        self._words = words_per_row(vocabulary_size)
        self._table = torch.zeros((slots, self._words), dtype=torch.int32, device=device)
        self._size = slots
        self._slots: dict[Row, int] = {}
        self._forced: list[int] = []
        """The only token that the row in each slot allows, or -1."""

    def compile_kernel(self) -> None:
        """Triton compiles the kernel at its first use, which takes half a second."""
        logits = torch.zeros(1, self._vocabulary_size, device=self._device)
        self.apply(logits, [0], [Row(bytes(4 * self._words))])

    def apply(self, logits: torch.Tensor, indices: Sequence[int], rows: Sequence[Row]) -> None:
        """Forbid what the rows forbid, as MaskApplier does."""
        if self._staging is not None:
            self._staging.begin()
        for at in range(0, len(rows), self._size):
            part = slice(at, at + self._size)
            self._apply(logits, indices[part], rows[part])
        if self._staging is not None:
            self._staging.end()

    def _apply(self, logits: torch.Tensor, indices: Sequence[int], rows: Sequence[Row]) -> None:
        try:
            slots = [self._slots[row] for row in rows]
        except KeyError:
            self._add(rows)
            slots = [self._slots[row] for row in rows]
        forced = [self._forced[slot] for slot in slots]
        numbers = np.array((indices, slots, forced), np.int32)
        width = logits.shape[1]
        mask_rows[len(rows), -(-width // BLOCK)](
            logits,
            width,
            logits.stride(0),
            self._table,
            self._words,
            self._on_device(numbers),
            len(rows),
            BLOCK=BLOCK,
        )

    def _add(self, rows: Sequence[Row]) -> None:
        """Give slots to the rows that have none. If they are not enough, all rows lose theirs."""
        wanted = dict.fromkeys(rows)
        missing = [row for row in wanted if row not in self._slots]
        if len(self._slots) + len(missing) > self._size:
            self._slots.clear()
            self._forced.clear()
            missing = [*wanted]
        first = len(self._slots)
        self._slots.update(zip(missing, range(first, self._size), strict=False))
        self._forced += [_only_token(row, self._vocabulary_size) for row in missing]
        copied = self._on_device(np.stack([row.words for row in missing]))
        self._table[first : len(self._slots)].copy_(copied)

    def _on_device(self, numbers: npt.NDArray[Any]) -> torch.Tensor:
        if self._staging is not None:
            return self._staging.copy(numbers)
        return torch.from_numpy(numbers).to(self._device)


def _only_token(row: Row, vocabulary_size: int) -> int:
    """Return the only token of the vocabulary that a row allows; -1 if it allows another number."""
    if row.few is None or len(row.few) > 2:  # bits beyond the vocabulary may be set in the last one
        return -1
    tokens = unpack(row.words)
    tokens = tokens[tokens < vocabulary_size]
    return int(tokens[0]) if len(tokens) == 1 else -1


BYTES = 1 << 20
"""Size of the page-locked memory at first. It is doubled when the copies of one round need more."""
ALIGNMENT = 64


class Staging:
    """Copies arrays to a GPU without a wait, in rounds between `begin` and `end`.

    A copy from pageable memory, and the first use of page-locked memory, wait until the GPU has
    done its earlier work, which is the forward pass. So arrays are written to page-locked memory
    that is kept."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._memory = self._allocate(BYTES)
        self._used = 0
        self._copied = torch.cuda.Event()

    def begin(self) -> None:
        """Wait for the copies of the round before, which are usually done."""
        self._copied.synchronize()
        self._used = 0

    def copy(self, numbers: npt.NDArray[Any]) -> torch.Tensor:
        """Return a tensor on the GPU, valid for work that is queued later."""
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


BLOCK = 8192
"""Tokens of a program, a multiple of 32."""


@triton.jit(do_not_specialize=["count"])  # type: ignore[misc]  # else compiled for 1, 2 and 16 rows
def mask_rows(logits, width, stride, table, words, numbers, count, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Apply a row of `table` to each of `count` rows of `logits`, `BLOCK` tokens in a program.

    `numbers` has three rows: the row of `logits`, the row of `table`, and the token that the latter
    forces, or -1. `width` and `words` are the widths of `logits` and of `table`, and `stride` is
    the distance of rows of `logits`."""
    sequence = tl.program_id(0)
    row = tl.load(numbers + sequence).to(tl.int64)
    slot = tl.load(numbers + count + sequence).to(tl.int64)
    forced = tl.load(numbers + 2 * count + sequence)
    word = tl.program_id(1) * (BLOCK // 32) + tl.arange(0, BLOCK // 32)
    packed = tl.load(table + slot * words + word, mask=word < words, other=0)
    bits = ((packed[:, None] >> tl.arange(0, 32)[None, :]) & 1).reshape(BLOCK)
    token = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    entries = logits + row * stride + token
    tl.store(entries, -float("inf"), mask=(bits == 0) & (token < width))
    tl.store(entries, 0.0, mask=token == forced)
