"""The masks of the steps of one engine process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..enforcement.mask_time_budget import StepTimer
from ..tokens.masks import BitmaskRows, Row
from .row_numbers import NumberedRows, RowNumbers
from .structured_output import EnforcementGrammar


class StepMasks:
    """The masks of a step whose structured requests are all Toolgate's. Not thread-safe."""

    def __init__(self, seconds: float | None = None) -> None:
        """`seconds`: the wall time above which a step is slow."""
        self.numbers: RowNumbers | None = None
        """If all workers have tables of rows (mask_worker.py)."""
        self._timer = StepTimer(seconds)

    def fill(
        self, grammars: Mapping[str, EnforcementGrammar], drafts: Mapping[str, Sequence[int]]
    ) -> NumberedRows | BitmaskRows:
        """Return the masks of these sequences, by request id, in this order: one for each of the
        `drafts` of a sequence, and one for the token after them. Without tables they are a bitmask,
        which like everything else that is returned is not written again."""
        timed = self._timer.begin()
        rows: list[Row]
        if drafts or timed:
            rows = []
            for request_id, grammar in grammars.items():
                rows += grammar.draft_rows(drafts.get(request_id, ()), timed=timed)
        else:
            rows = [each.automaton.row or each.next_row() for each in grammars.values()]
        self._timer.end()
        if self.numbers is None:
            return np.stack([row.words for row in rows])
        return self.numbers.number(rows)
