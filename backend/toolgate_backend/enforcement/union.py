"""The tools that a call may still be: their matchers side by side.

The mask is the OR of theirs; a token drops those that refuse it. Tool names differ, so one matcher
is left once the name is out, and it costs what one grammar costs (8 tools: 25 µs a step for about
six steps).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..grammars.engine import Matcher, Words
from ..grammars.measured import MeasuredGrammar


@dataclass
class _Runner:
    grammar: MeasuredGrammar
    matcher: Matcher
    consumed: int = 0


class Union:
    def __init__(self, grammars: Sequence[MeasuredGrammar], words: int, excluded: Words) -> None:
        """`excluded` has the bits of the special tokens: inside a call they are never text."""
        self._runners = tuple(_Runner(grammar, grammar.matcher()) for grammar in grammars)
        self._alive = self._runners
        self._consumed = 0
        self._trail: list[tuple[_Runner, ...]] = []
        self._scratch = np.empty(words, dtype=np.int32)
        self._keep = ~excluded

    @property
    def alive(self) -> tuple[tuple[Matcher, MeasuredGrammar], ...]:
        """The candidates that the text so far leaves."""
        return tuple((runner.matcher, runner.grammar) for runner in self._alive)

    @property
    def finished(self) -> bool:
        return len(self._alive) == 1 and self._alive[0].matcher.finished

    def accept(self, token: int) -> bool:
        """False, and nothing changed, when no candidate takes the token."""
        taking = tuple(runner for runner in self._alive if runner.matcher.accept(token))
        if not taking:
            return False
        for runner in taking:
            runner.consumed += 1
        self._trail.append(self._alive)
        self._alive = taking
        self._consumed += 1
        return True

    def rollback(self, count: int) -> None:
        """Undo the last `count` tokens; candidates they had dropped are back."""
        self._consumed -= count
        for _ in range(count):
            self._alive = self._trail.pop()
        for runner in self._alive:
            surplus = runner.consumed - self._consumed
            if surplus:
                runner.matcher.rollback(surplus)
                runner.consumed = self._consumed

    def mask(self) -> Words:
        """A fresh row: what any of the candidates would take next."""
        row = np.zeros_like(self._scratch)
        for runner in self._alive:
            runner.matcher.fill(self._scratch)
            row |= self._scratch
        row &= self._keep
        return row
