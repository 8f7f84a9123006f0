"""The masks of a batch's calls, computed together where that is possible."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

import numpy as np

from ..grammars.engines.batch import BatchFill
from ..tokens.masks import BitmaskRow, BitmaskRows
from .automaton import Automaton

logger = logging.getLogger(__name__)

SINGLE_STEPS = 16
"""Number of steps after a slow batch in which sequences compute their masks alone. Then each one's
time is known (mask_time_budget.py), and one that stays slow ends."""


class BatchMasks:
    """Not thread-safe."""

    def __init__(self, allowed: BitmaskRow, seconds: float) -> None:
        """`allowed`: the tokens that a grammar may allow. `seconds`: wall time above which a batch
        is slow."""
        self._allowed = allowed
        self._seconds = seconds
        self._fill = BatchFill()
        self._single_steps = 0

    def fill(self, rows: BitmaskRows, automata: Iterable[tuple[int, Automaton]]) -> set[int]:
        """Write masks of automata that are inside a call into their rows, and return these rows.
        All other rows are undefined: their automata have to compute their masks alone. Never
        raises, because an exception would end the whole engine (EngineDeadError)."""
        if self._single_steps:
            self._single_steps -= 1
            return set()
        try:
            return self._filled(rows, automata)
        except Exception:
            logger.exception("Toolgate: the masks of a step are computed one by one")
            return set()

    def _filled(self, rows: BitmaskRows, automata: Iterable[tuple[int, Automaton]]) -> set[int]:
        inside = [(at, each.grammar_matcher) for at, each in automata]
        matchers = [(at, matcher) for at, matcher in inside if matcher is not None]
        if len(matchers) < 2:
            return set()
        began = time.perf_counter()
        done = self._fill.fill(rows, matchers)
        if time.perf_counter() - began > self._seconds:
            self._single_steps = SINGLE_STEPS
        used = rows[: max(at for at, _ in matchers) + 1]
        np.bitwise_and(used, self._allowed, out=used)
        # Without a token, the mask is that of forced text (candidates.py).
        return done.difference(np.flatnonzero(np.bitwise_or.reduce(used, axis=1) == 0).tolist())
