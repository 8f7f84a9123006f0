"""The kernel that applies rows of a table to logits."""

from __future__ import annotations

import triton
import triton.language as tl

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
