"""Numbers of rows, which are sent to the workers instead of the rows.

Most masks of a step occurred before. Whoever applies them has a table of rows by number (on a CPU
apply_masks.py, on a GPU device_masks.py), so a step sends its rows' numbers, and only those rows
that are not in the table yet.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from vllm.platforms import current_platform

from ..tokens.masks import BitmaskRow, BitmaskRows, Row, TokenIds, unpack

SLOTS = 2048
"""Rows in a table: 39 MB of the GPU's memory for a vocabulary of 151,936 tokens. Eight tools need
about 40."""
Numbers = npt.NDArray[np.int32]


def slots_of(config: Any) -> int:
    """Return the size of the tables for a VllmConfig: room for all masks of a step."""
    positions: int = config.scheduler_config.max_num_seqs * (1 + config.num_speculative_tokens)
    return max(SLOTS, positions)


@dataclass(frozen=True, slots=True)
class NumberedRows:
    """The masks of a step. Nothing in it is written again, so that it can be sent without a copy,
    and that several steps can be on their way."""

    numbers: Numbers
    """One for each mask."""
    new: BitmaskRows
    """The rows that are not in the table yet."""
    first: int
    """The number of the first of these; the others follow it. If it is 0, the table begins anew."""
    changes: int
    """How many times rows were added before."""


NOTHING: BitmaskRows = np.empty((0, 0), np.int32)


class RowNumbers:
    """Gives numbers to rows. Not thread-safe.

    A table applies the steps one after the other, as they were numbered. So a number can go to
    another row while steps with the former one are still on their way."""

    def __init__(self, slots: int = SLOTS) -> None:
        """`slots`: the size of the tables, see `slots_of`."""
        self._slots = slots
        self._numbers: dict[Row, int] = {}
        self._changes = 0

    def number(self, rows: Sequence[Row]) -> NumberedRows:
        """Return the masks of the next step."""
        number_of, changes, new = self._numbers.__getitem__, self._changes, NOTHING
        try:
            numbers = [*map(number_of, rows)]
        except KeyError:
            new = self._add(rows)
            numbers = [*map(number_of, rows)]
        first = len(self._numbers) - len(new)
        return NumberedRows(np.array(numbers, np.int32), new, first, changes)

    def _add(self, rows: Sequence[Row]) -> BitmaskRows:
        """Give numbers to the rows that have none, and return those rows. If the table has no room
        for them, it begins anew."""
        numbers, wanted = self._numbers, dict.fromkeys(rows)
        missing = [row for row in wanted if row not in numbers]
        if len(numbers) + len(missing) > self._slots:
            numbers.clear()
            missing = [*wanted]
        numbers.update(zip(missing, range(len(numbers), self._slots), strict=False))
        self._changes += 1
        return np.stack([row.words for row in missing])


class RowTable(ABC):
    """The rows that one `RowNumbers` has sent, by number."""

    _changes = 0

    def apply(self, logits: torch.Tensor, indices: npt.ArrayLike, sent: NumberedRows) -> None:
        """Forbid in `logits[indices[i]]` what the i-th mask of the step forbids, in place. The
        shape of `logits` is (positions, vocabulary).

        Raise RuntimeError if a step was missed, since its rows are."""
        is_new = len(sent.new) > 0
        if is_new and sent.first == 0:
            self._changes = sent.changes
        if sent.changes != self._changes:
            raise RuntimeError(
                f"Toolgate: this worker has the masks of {self._changes} changes, but the step was "
                f"made after {sent.changes}. A step did not reach the worker, so its rows of masks "
                "are wrong. Restart the server."
            )
        if is_new:
            self._write(sent.first, sent.new)
            self._changes += 1
        self._apply(logits, np.asarray(indices, np.int32), sent.numbers)

    @abstractmethod
    def _write(self, first: int, rows: BitmaskRows) -> None:
        """Keep these rows under the numbers from `first` on."""

    @abstractmethod
    def _apply(self, logits: torch.Tensor, indices: Numbers, numbers: Numbers) -> None: ...


def pins(device: torch.device) -> bool:
    """Return whether copies to the device are from page-locked memory. One from pageable memory
    would wait for the GPU's earlier work, which is the forward pass."""
    return device.type == "cuda" and bool(current_platform.is_pin_memory_available())


def to_device(numbers: npt.NDArray[Any], device: torch.device) -> torch.Tensor:
    tensor = torch.from_numpy(numbers)
    return (tensor.pin_memory() if pins(device) else tensor).to(device, non_blocking=True)


def tokens_of(words: BitmaskRow, vocabulary_size: int) -> TokenIds:
    """Return the tokens of a row. It may have bits beyond the vocabulary."""
    tokens = unpack(words)
    return tokens[tokens < vocabulary_size]
