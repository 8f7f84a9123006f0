"""Masks of many matchers with one call of each engine.

llguidance gives up Python's lock for each mask. If another thread of the engine's process runs
meanwhile, getting it back takes up to Python's switch interval, 5 ms: once in a step of the batch,
not for each of its sequences. xgrammar keeps the lock; one call takes half the time of many.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import llguidance
import llguidance.numpy
import xgrammar

from ...errors import BackendError
from ...tokens.masks import BitmaskRows
from .engine import Matcher
from .llguidance_matcher import LLGuidanceMatcher
from .xgrammar_engine import XGrammarMatcher

THREADS = 2
"""Of llguidance, whose masks can take 0.4 ms. xgrammar's take a microsecond."""


class BatchFill:
    """Not thread-safe."""

    def __init__(self) -> None:
        self._xgrammar = xgrammar.BatchGrammarMatcher(max_threads=1)
        self._llguidance = llguidance.LLExecutor(THREADS)

    def fill(self, rows: BitmaskRows, matchers: Sequence[tuple[int, Matcher]]) -> set[int]:
        """Compute the mask of each matcher in its row. Returns the rows with a valid mask. The
        others have to be filled by their matchers, which then raise the error, if there is one."""
        done: set[int] = set()
        eager: list[tuple[int, XGrammarMatcher]] = []
        lazy: list[tuple[int, LLGuidanceMatcher, llguidance.LLMatcher]] = []
        for at, each in matchers:
            if isinstance(each, XGrammarMatcher):
                eager.append((at, each))
            elif isinstance(each, LLGuidanceMatcher) and each.native is not None:
                lazy.append((at, each, each.native))
        if eager:
            places = [at for at, _ in eager]
            with suppress(RuntimeError):
                self._xgrammar.batch_fill_next_token_bitmask(
                    [each.native for _, each in eager], rows, places
                )
                done.update(places)
        if lazy:
            work = [(native, at) for at, _, native in lazy]
            llguidance.numpy.fill_next_token_bitmask_par(self._llguidance, work, rows)
        for at, matcher, native in lazy:
            with suppress(BackendError):
                matcher.finish(native, rows[at])
                done.add(at)
        return done
