"""Numbers of rows, which are sent to the workers instead of the rows.

Most masks of a step occurred before. Whoever applies them (apply_masks.py) has a table of rows by
number, so a step sends its rows' numbers, and only those rows that are not in the table yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..tokens.masks import BitmaskRows, Row

SLOTS = 2048
"""Rows in a table: 39 MB of the GPU's memory for a vocabulary of 151,936 tokens. Eight tools need
about 40."""
Numbers = npt.NDArray[np.int32]


def slots_of(config: Any) -> int:
    """Return the size of the tables for a VllmConfig: room for all masks of a step."""
    positions = config.scheduler_config.max_num_seqs * (1 + config.num_speculative_tokens)
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
        """The masks of the next step."""
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
