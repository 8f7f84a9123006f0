"""Effects of a token budget: whether a call fits, and when the reasoning must end.

Every count includes the token that ends the turn. A call that just fits therefore ends normally.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..grammars.compiled_grammar import MeasuredGrammar
from .model_data import ModelData
from .spec import Spec
from .state import Remaining


class Budget:
    """The lengths of the calls of one set of tools."""

    def __init__(self, model: ModelData, grammars: Sequence[MeasuredGrammar]) -> None:
        self.grammars = grammars
        """Those of the tools that may be called."""
        self._tokens = model.vocabulary.call_tokens
        self._after_reasoning = self._tokens.reasoning_end_count
        self._first = [self._shortest(g, first=True) for g in grammars]
        self._further = [self._shortest(g, first=False) for g in grammars]
        self._shortest_first = min(self._first, default=0)
        self._shortest_further = min(self._further, default=0)
        usual = (size + g.extra_tokens for size, g in zip(self._first, grammars, strict=True))
        self._usual = max(usual, default=0)
        preamble_end = model.texts.preamble_end
        self._beside_calls = (
            self._after_reasoning
            + len(self._tokens.reasoning_begin)
            + len(self._tokens.after_reasoning)
            + len(model.texts.begins.get("preamble", b""))
            + (len(preamble_end.tokens) if preamble_end else 0)
            + self._tokens.before_calls
        )

    def _shortest(self, grammar: MeasuredGrammar, *, first: bool) -> int:
        return self._tokens.shortest_call(grammar.name, grammar.least_tokens or 0, first=first)

    def usual_call(self, spec: Spec) -> int:
        """Tokens to leave for a required call: as many as the longest of the tools' usual calls,
        by their schemas, or as requested. Not more than half of the budget, and not less than the
        shortest call."""
        wanted = self._usual if spec.call_tokens is None else spec.call_tokens
        if spec.budget is not None:
            wanted = min(wanted, spec.budget // 2)
        return max(wanted, self._shortest_first)

    def ample(self, usual_call: int) -> int:
        """Return the number of remaining tokens from which on all decisions are those of an
        unlimited budget."""
        longest = max(usual_call, *self._first, *self._further, 0)
        return longest + self._beside_calls + ROUNDING

    def fits_call(self, remaining: Remaining, tokens_before: int = 0) -> bool:
        """Return whether the shortest first call fits, with `tokens_before` tokens before it."""
        return remaining.tokens is None or remaining.tokens >= self._shortest_first + tokens_before

    def fits_call_after_content(self, remaining: Remaining) -> bool:
        """Return whether the shortest first call fits after a message of content."""
        return self.fits_call(remaining, -self._tokens.before_calls)

    def fits_further_call(self, remaining: Remaining) -> bool:
        """Return whether another call fits after a call."""
        return remaining.tokens is None or remaining.tokens >= self._shortest_further

    def fits_usual_call(self, remaining: Remaining, tokens_before: int) -> bool:
        """Return whether a required call of usual length fits after `tokens_before` tokens."""
        return remaining.tokens is None or remaining.tokens >= remaining.usual_call + tokens_before

    def fits_reasoning(self, remaining: Remaining) -> bool:
        """Return whether a required call still fits after an empty reasoning that begins here."""
        before = len(self._tokens.reasoning_begin) + self._after_reasoning
        return self.fits_usual_call(remaining, before)

    def must_end_reasoning(self, remaining: Remaining, *, call_required: bool) -> bool:
        """Whether the reasoning must end now: its own budget is used up, or a required call of
        usual length needs all tokens that remain."""
        if remaining.reasoning_spent:
            return True
        return call_required and not self.fits_usual_call(remaining, self._after_reasoning + 1)

    def fitting_grammars(self, remaining: Remaining, *, first: bool) -> Sequence[MeasuredGrammar]:
        """Return the candidates whose shortest call fits, without the trigger of a first call."""
        if remaining.tokens is None:
            return self.grammars
        sizes = self._first if first else self._further
        pairs = zip(self.grammars, sizes, strict=True)
        fitting = [grammar for grammar, size in pairs if size <= remaining.tokens]
        return fitting or self.grammars


ROUNDING = 8
"""Tokens that single steps take beside what `Budget.ample` counts."""
