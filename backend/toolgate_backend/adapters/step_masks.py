"""The bitmask of the steps of one engine process."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..enforcement.mask_time_budget import StepTimer
from ..tokens.masks import BitmaskRows, Row
from .structured_output import EnforcementGrammar

FIRST_ROWS = 64


class StepMasks:
    """The bitmask of a step whose structured requests are all Toolgate's. Not thread-safe.

    Each sequence keeps its row of the bitmask as long as it runs, and a row is written only if its
    mask has changed. Inside a string, it does not change for many steps.

    Like vLLM's own bitmask, a returned one is overwritten in the next step. By then, vLLM's
    executors and workers have copied or sent it.
    """

    def __init__(self, words: int, seconds: float | None = None) -> None:
        """`words`: the width of a row. `seconds`: the wall time above which a step is slow."""
        self._words = words
        self._timer = StepTimer(seconds)
        self._ids: list[str] = []
        """The sequence of each row. Never changed in place, because vLLM gets this list."""
        self._placed = frozenset[str]()
        self._allocate(FIRST_ROWS)

    def fill(self, grammars: Mapping[str, EnforcementGrammar]) -> tuple[list[str], BitmaskRows]:
        """Return the masks of these sequences, by request id: the order of the rows, and the
        rows."""
        if grammars.keys() != self._placed:
            self._place(grammars)
        ids, held, views = self._ids, self._held, self._views
        timed = self._timer.begin()
        for at, request_id in enumerate(ids):
            grammar = grammars[request_id]
            row = grammar.automaton.row
            if row is None or timed:
                row = grammar.next_timed_row() if timed else grammar.next_row()
            if held[at] is not row:
                row.write(views[at], held[at])
                held[at] = row
        self._timer.end()
        return ids, self._bitmask[: len(ids)]

    def _place(self, grammars: Mapping[str, EnforcementGrammar]) -> None:
        """Give rows to new sequences, and leave all others where they are. If there are fewer than
        before, the last ones move to the rows that are free."""
        new = iter([each for each in grammars if each not in self._placed])
        ids = [each if each in grammars else next(new, None) for each in self._ids]
        ids += new
        while None in ids:
            last = ids.pop()
            if last is not None:
                ids[ids.index(None)] = last
        self._ids = [each for each in ids if each is not None]
        self._placed = frozenset(self._ids)
        if len(ids) > len(self._held):
            self._allocate(2 * len(ids))

    def _allocate(self, rows: int) -> None:
        self._bitmask: BitmaskRows = np.empty((rows, self._words), np.int32)
        self._views = [memoryview(row) for row in self._bitmask]
        """The same memory. Copying into a memoryview keeps Python's lock, numpy gives it up."""
        self._held: list[Row | None] = [None] * rows
        """What is written in each row."""
