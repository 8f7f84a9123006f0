"""Masks on rows of logits, by few operations for all of them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
import xgrammar

from ..enforcement import masks
from ..grammars.engines.engine import Words

FORBIDDEN = float("-inf")
REMEMBERED = 128
"""Masks whose tokens are kept listed: within a string, one step's is nearly always the last one's,
and streams in strings share it."""
FEW = 4096
"""Entries of rows that are set together, whatever their masks: an operation of torch's costs more
than so many. More of them are set for all the rows at once that share a mask."""

Side = masks.Allow | masks.Forbid
"""The smaller side of a mask."""
Way = Literal["forbid", "allow", "force"]
"""`force`: a single token, whatever stood there: a ban elsewhere must not leave nothing."""


def _way(side: Side) -> Way:
    if isinstance(side, masks.Forbid):
        return "forbid"
    return "allow" if len(side.ids) > 1 else "force"


class LogitsRows:
    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._unpacked = lru_cache(REMEMBERED)(self._unpack)

    def apply(self, logits: torch.Tensor, rows: Iterable[tuple[int, masks.Mask]]) -> None:
        """In place. logits: (rows, vocabulary)."""
        sides: dict[Side, list[int]] = {}
        bits: list[tuple[int, Words]] = []
        for index, mask in rows:
            if not isinstance(mask, masks.Bits):
                sides.setdefault(mask, []).append(index)
            elif self._device.type == "cpu":
                # Scattered: xgrammar's CPU kernel takes 490 µs a row of 151,936 entries when few
                # are allowed.
                side = self._unpacked(mask.words.tobytes(), logits.shape[1])
                sides.setdefault(side, []).append(index)
            else:
                bits.append((index, mask.words))
        few: dict[Way, list[tuple[int, Side]]] = {}
        for side, indices in sides.items():
            if len(side.ids) * len(indices) > FEW:
                entries = self._here(indices)[:, None], self._here(side.ids)
                self._set(logits, indices, entries, _way(side))
            else:
                few.setdefault(_way(side), []).extend((index, side) for index in indices)
        for way, own in few.items():
            indices = [index for index, _ in own]
            listed = np.repeat(indices, [len(side.ids) for _, side in own])
            entries = self._here(listed), self._here(np.concatenate([side.ids for _, side in own]))
            self._set(logits, indices, entries, way)
        if bits:
            self._multiply(logits, bits)

    def _unpack(self, packed: bytes, vocabulary: int) -> Side:
        words = np.frombuffer(packed, dtype=np.int32)
        few = np.bitwise_count(words.view(np.uint32)).sum() * 2 < vocabulary
        ids = masks.unpack(words if few else ~words)
        return (masks.Allow if few else masks.Forbid)(ids[ids < vocabulary])

    def _set(
        self,
        logits: torch.Tensor,
        rows: list[int],
        entries: tuple[torch.Tensor, torch.Tensor],
        way: Way,
    ) -> None:
        """`entries`: those of all these rows that their masks name."""
        if way == "forbid":
            logits[entries] = FORBIDDEN
            return
        kept = logits[entries] if way == "allow" else 0.0
        logits.index_fill_(0, self._here(rows), FORBIDDEN)
        logits[entries] = kept

    def _here(self, numbers: npt.ArrayLike) -> torch.Tensor:
        return torch.from_numpy(np.asarray(numbers, np.int64)).to(self._device)

    def _multiply(self, logits: torch.Tensor, rows: list[tuple[int, Words]]) -> None:
        """By one kernel for the batch."""
        indices = [index for index, _ in rows]
        words = np.stack([row for _, row in rows])
        bitmask = torch.zeros(logits.shape[0], words.shape[1], dtype=torch.int32)
        bitmask[indices] = torch.from_numpy(words)
        xgrammar.apply_token_bitmask_inplace(
            logits, bitmask.to(self._device, non_blocking=True), indices=indices
        )
