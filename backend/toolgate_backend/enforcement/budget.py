"""What a sequence's token budget allows: room for a call, an end to the reasoning, a way to close.

Every figure counts the token that ends the turn, so that a call that just fits ends as one.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..grammars.compiled_grammar import MeasuredGrammar
from ..grammars.completion import Scan
from .candidates import CandidateSet
from .spec import Spec
from .static_masks import Rules

FAR = 2**31
NEAR = 64
"""Tokens of a way out for which it may be searched anew at every token. One that is longer takes
longer to find, and is asked for the less often."""
SEARCHED = 8
"""Candidates for each of which a way out is searched."""

AFTER_BODY = 2
"""The mark that ends the call, and the end of the turn."""


class Budget:
    def __init__(self, rules: Rules, spec: Spec, grammars: Sequence[MeasuredGrammar]) -> None:
        self._rules = rules
        self._spec = spec
        self._grammars = grammars
        self._after_reasoning = 1 + len(rules.after_reasoning)
        bodies = [grammar.least_tokens or 0 for grammar in grammars]
        self._call = 1 + min(bodies, default=0) + AFTER_BODY

    def left(self, length: int) -> int | None:
        return None if self._spec.budget is None else self._spec.budget - length

    def fits_call(self, length: int, beside: int = 0) -> bool:
        """Whether the shortest call could still be finished, with `beside` tokens before it."""
        left = self.left(length)
        return left is None or left >= self._call + beside

    def fits_reasoning(self, length: int) -> bool:
        """Whether a call that is owed would still fit after an empty reasoning begun here."""
        return self.fits_call(length, 1 + self._after_reasoning)

    def closes_reasoning(self, length: int, thought: int, *, owed: bool) -> bool:
        """Whether the reasoning must end now: its own budget is spent, or what is left is what the
        call that is owed may take."""
        limit = self._spec.reasoning_budget
        if limit is not None and thought >= limit:
            return True
        return owed and not self.fits_call(length, self._after_reasoning + 1)

    def fitting(self, length: int) -> Sequence[MeasuredGrammar]:
        """The candidates that a call begun here could be of, once its mark is out."""
        left = self.left(length)
        if left is None:
            return self._grammars
        fitting = [g for g in self._grammars if (g.least_tokens or 0) + AFTER_BODY <= left]
        return fitting or self._grammars

    def way_out(
        self, union: CandidateSet, taken: int, scan: Scan, length: int
    ) -> tuple[tuple[int, ...], int]:
        """The tokens that now must end the call's body, of which `taken` are out, if it is time,
        and the length at which to ask again if it is not.

        A token takes one from what is left, and lengthens the way out by the grammar's `growth` at
        most: so long as there is room for one such token, the model is free.
        """
        left = self.left(length)
        assert left is not None
        known = [grammar for grammar in union.grammars if grammar.least_tokens is not None]
        if not known:
            return (), FAR
        most = 1 + max(grammar.growth for grammar in known)
        if union.in_heads:
            rooms = [left - AFTER_BODY - _bound(grammar, taken) for grammar in known]
            if min(rooms) > 0:
                return (), length + 1 + (min(rooms) - 1) // most
            if len(known) > SEARCHED:  # all of them fit as the call began: one is as good
                known = [known[rooms.index(max(rooms))]]
        found: list[tuple[int, tuple[int, ...]]] = []
        for grammar, matcher in union.matchers(known):
            path = self._rules.completion.path(matcher, scan)
            if path is not None:
                found.append((left - len(path) - AFTER_BODY - grammar.growth, tuple(path)))
        if not found:
            return (), length + NEAR
        free = min(free for free, _ in found)
        apart = max(len(path) for _, path in found) // NEAR
        if free > apart * most:
            return (), length + 1 + (free - 1) // most
        # The roomiest of those that are left: where a name is not out yet, the shortest call.
        return max(found)[1], length + 1


def _bound(grammar: MeasuredGrammar, taken: int) -> int:
    """Tokens that the way out takes at most, before all of the grammar's head is written, and those
    by which one more can lengthen it. No search: that takes a millisecond for each of hundreds. A
    head's rest can be spelt in more tokens than its whole, but in no more than it has bytes."""
    assert grammar.least_tokens is not None
    return grammar.least_tokens + (len(grammar.head) if taken else 0) + grammar.growth
