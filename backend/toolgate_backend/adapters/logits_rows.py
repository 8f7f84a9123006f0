"""Masks on rows of logits: each is applied once, to all the rows that it is for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
import xgrammar

from ..enforcement import masks
from ..grammars.engine import Words

FORBIDDEN = float("-inf")
REMEMBERED = 128
"""Masks whose tokens are kept listed: within a string, one step's is nearly always the last one's,
and streams in strings share it."""


@dataclass(frozen=True, eq=False)
class _Side:
    """The smaller side of a mask: all that is allowed, or all that is not."""

    ids: torch.Tensor
    allowed: bool


class LogitsRows:
    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._listed = lru_cache(REMEMBERED)(self._list)
        self._unpacked = lru_cache(REMEMBERED)(self._unpack)

    def apply(self, logits: torch.Tensor, rows: Iterable[tuple[int, masks.Mask]]) -> None:
        """In place. logits: (rows, vocabulary)."""
        sides: dict[_Side, list[int]] = {}
        bits: list[tuple[int, Words]] = []
        for index, mask in rows:
            if not isinstance(mask, masks.Bits):
                sides.setdefault(self._listed(mask), []).append(index)
            elif self._device.type == "cpu":
                # Scattered: xgrammar's CPU kernel takes 490 µs a row of 151,936 entries when few
                # are allowed.
                side = self._unpacked(mask.words.tobytes(), logits.shape[1])
                sides.setdefault(side, []).append(index)
            else:
                bits.append((index, mask.words))
        for side, indices in sides.items():
            self._scatter(logits, side, indices)
        if bits:
            self._multiply(logits, bits)

    def _list(self, mask: masks.Forbid | masks.Allow) -> _Side:
        ids = torch.from_numpy(mask.ids).to(self._device)
        return _Side(ids, isinstance(mask, masks.Allow))

    def _unpack(self, packed: bytes, vocabulary: int) -> _Side:
        words = np.frombuffer(packed, dtype=np.int32)
        few = np.bitwise_count(words.view(np.uint32)).sum() * 2 < vocabulary
        ids = masks.unpack(words if few else ~words)
        return _Side(torch.from_numpy(ids[ids < vocabulary]), bool(few))

    def _scatter(self, logits: torch.Tensor, side: _Side, indices: list[int]) -> None:
        rows = torch.tensor(indices, device=self._device)
        entries = rows[:, None], side.ids
        if not side.allowed:
            logits[entries] = FORBIDDEN
            return
        # A single token is forced whatever stood there: a ban elsewhere must not leave nothing.
        kept = logits[entries] if len(side.ids) > 1 else logits.new_zeros(len(indices), 1)
        logits.index_fill_(0, rows, FORBIDDEN)
        logits[entries] = kept

    def _multiply(self, logits: torch.Tensor, rows: list[tuple[int, Words]]) -> None:
        """By one kernel for the batch."""
        indices = [index for index, _ in rows]
        words = np.stack([row for _, row in rows])
        bitmask = torch.zeros(logits.shape[0], words.shape[1], dtype=torch.int32)
        bitmask[indices] = torch.from_numpy(words)
        xgrammar.apply_token_bitmask_inplace(
            logits, bitmask.to(self._device, non_blocking=True), indices=indices
        )
