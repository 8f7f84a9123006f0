"""A table of rows on a GPU. A step sends the numbers of its rows, and one kernel gathers the rows
and applies them to the logits."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
import triton
import triton.language as tl

from ..tokens.masks import BitmaskRow, BitmaskRows, words_per_row
from .row_numbers import SLOTS, Numbers, RowTable, pins, to_device, tokens_of

NO_TOKEN = -1


class DeviceMasks(RowTable):
    """All work is queued on one stream of the GPU, so that a row is overwritten after its use."""

    def __init__(
        self,
        device: torch.device,
        vocabulary_size: int,
        *,
        forces: bool,
        slots: int = SLOTS,
    ) -> None:
        self._device, self._vocabulary_size, self._forces = device, vocabulary_size, forces
        self._words = words_per_row(vocabulary_size)
        self._table = torch.zeros((slots, self._words + 1), dtype=torch.int32, device=device)
        """The last column is the only token that a row allows if it is forced, else `NO_TOKEN`."""

    def prepare(self, types: Iterable[torch.dtype]) -> None:
        """Do what takes long at the first use: Triton compiles the kernel for each type of logits,
        and new page-locked memory is there only when the GPU has done its work. torch keeps it."""
        for each in types:
            logits = torch.zeros(1, self._vocabulary_size, dtype=each, device=self._device)
            self._apply(logits, np.zeros(1, np.int32), np.zeros(1, np.int32))
        if pins(self._device):
            _ = [torch.empty(size, dtype=torch.uint8, pin_memory=True) for size in PINNED]

    def _write(self, first: int, rows: BitmaskRows) -> None:
        written = np.empty((len(rows), self._words + 1), np.int32)
        written[:, :-1] = rows
        written[:, -1] = [*map(self._forced, rows)]
        self._table[first : first + len(rows)] = to_device(written, self._device)

    def _forced(self, words: BitmaskRow) -> int:
        if not self._forces or np.count_nonzero(words) > FORCED_WORDS:
            return NO_TOKEN
        tokens = tokens_of(words, self._vocabulary_size)
        return int(tokens[0]) if len(tokens) == 1 else NO_TOKEN

    def _apply(self, logits: torch.Tensor, indices: Numbers, numbers: Numbers) -> None:
        sent = to_device(np.stack((indices, numbers)), self._device)
        width = logits.shape[1]
        mask_rows[len(numbers), -(-width // BLOCK)](
            logits,
            width,
            logits.stride(0),
            self._table,
            self._words,
            sent,
            len(numbers),
            BLOCK=BLOCK,
        )


FORCED_WORDS = 2
"""Words of a row with one token. The last one may have bits beyond the vocabulary."""
PINNED = [2**exponent for exponent in range(9, 23) for _ in range(2)]
"""Sizes of page-locked memory that torch keeps, in bytes. It rounds up to a power of two."""
BLOCK = 8192
"""Tokens of a program, a multiple of 32."""


@triton.jit(do_not_specialize=["count"])  # type: ignore[misc]  # else compiled for 1, 2 and 16 rows
def mask_rows(logits, width, stride, table, words, numbers, count, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Apply a row of `table` to each of `count` rows of `logits`, `BLOCK` tokens in a program.

    `numbers` has two rows: the row of `logits`, and the row of `table`. The latter has `words`
    words, and the token that it forces, or -1. `width` is the width of `logits`, and `stride` the
    distance of its rows."""
    sequence = tl.program_id(0)
    row = tl.load(numbers + sequence).to(tl.int64)
    slot = table + tl.load(numbers + count + sequence).to(tl.int64) * (words + 1)
    forced = tl.load(slot + words)
    word = tl.program_id(1) * (BLOCK // 32) + tl.arange(0, BLOCK // 32)
    packed = tl.load(slot + word, mask=word < words, other=0)
    bits = ((packed[:, None] >> tl.arange(0, 32)[None, :]) & 1).reshape(BLOCK)
    token = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    entries = logits + row * stride + token
    tl.store(entries, -float("inf"), mask=(bits == 0) & (token < width))
    tl.store(entries, 0.0, mask=token == forced)
