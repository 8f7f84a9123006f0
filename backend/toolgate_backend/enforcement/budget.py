"""Effects of a sequence's token budget: whether a call fits, and when reasoning or a call must end.

Every count includes the token that ends the turn. A call that just fits therefore ends normally.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..grammars.compiled_grammar import MeasuredGrammar
from ..grammars.completions.ending import Path
from ..grammars.completions.scan import Scan
from .calls.candidates import CandidateSet
from .spec import Spec
from .static_masks import StaticMasks

NEVER = 2**31
FREQUENT_SEARCH_TOKENS = 64
"""Length of a completion up to which it may be searched again at every token. A longer one takes
longer to find and is searched less often."""
MAX_SEARCHED_CANDIDATES = 8
"""Maximum number of candidates whose completions are searched."""


@dataclass(frozen=True)
class Closing:
    """The result of a check whether a call must end."""

    next_check: int
    """The length of the sequence at which to check again."""
    completion: Path = ()
    """A completion from here on, if one was searched."""
    forced: Path = ()
    """The tokens that must follow; none if it is not yet time."""


class Budget:
    def __init__(
        self, static: StaticMasks, spec: Spec, grammars: Sequence[MeasuredGrammar]
    ) -> None:
        self._static = static
        self._spec = spec
        self.grammars = grammars
        """Those of the tools that may be called."""
        self._tokens = static.call_tokens
        self._after_reasoning = self._tokens.reasoning_end_count
        self._shortest_first = min((self._shortest(g, first=True) for g in grammars), default=0)
        self._shortest_further = min((self._shortest(g, first=False) for g in grammars), default=0)
        self._usual_first = self._usual()

    def _shortest(self, grammar: MeasuredGrammar, *, first: bool) -> int:
        return self._tokens.shortest_call(grammar.name, grammar.least_tokens or 0, first=first)

    def _usual(self) -> int:
        """Tokens to leave for a required call: as many as the longest of the tools' usual calls,
        by their schemas or by earlier calls, or as requested. Not more than half of the budget, and
        not less than the shortest call."""
        wanted = self._spec.call_tokens
        if wanted is None:
            calls = (self._shortest(g, first=True) + g.extra_tokens for g in self.grammars)
            wanted = max(*calls, self._spec.seen_call_tokens, 0)
        if self._spec.budget is not None:
            wanted = min(wanted, self._spec.budget // 2)
        return max(wanted, self._shortest_first)

    def remaining(self, length: int) -> int | None:
        """Tokens left after `length` tokens; None: unlimited."""
        return None if self._spec.budget is None else self._spec.budget - length

    def fits_call(self, length: int, tokens_before: int = 0) -> bool:
        """Whether the shortest first call fits, with `tokens_before` tokens before it."""
        remaining = self.remaining(length)
        return remaining is None or remaining >= self._shortest_first + tokens_before

    def fits_call_after_content(self, length: int) -> bool:
        """Whether the shortest first call fits after a message of content."""
        return self.fits_call(length, -self._tokens.before_calls)

    def fits_further_call(self, length: int) -> bool:
        """Whether another call fits after a call."""
        remaining = self.remaining(length)
        return remaining is None or remaining >= self._shortest_further

    def fits_usual_call(self, length: int, tokens_before: int) -> bool:
        """Whether a required call of usual length fits, with `tokens_before` tokens before it."""
        remaining = self.remaining(length)
        return remaining is None or remaining >= self._usual_first + tokens_before

    def fits_reasoning(self, length: int) -> bool:
        """Whether a required call still fits after an empty reasoning that begins here."""
        before = len(self._tokens.reasoning_begin) + self._after_reasoning
        return self.fits_usual_call(length, before)

    def must_end_reasoning(
        self, length: int, reasoning_tokens: int, *, call_required: bool
    ) -> bool:
        """Whether the reasoning must end now: its own budget is used up, or a required call of
        usual length needs all tokens that remain."""
        limit = self._spec.reasoning_budget
        if limit is not None and reasoning_tokens >= limit:
            return True
        return call_required and not self.fits_usual_call(length, self._after_reasoning + 1)

    def fitting_grammars(self, length: int, *, first: bool) -> Sequence[MeasuredGrammar]:
        """The candidates whose shortest call fits after `length` tokens, the trigger of a first
        call not included."""
        remaining = self.remaining(length)
        if remaining is None:
            return self.grammars
        fitting = [g for g in self.grammars if self._shortest(g, first=first) <= remaining]
        return fitting or self.grammars

    def closing_tokens(
        self,
        candidates: CandidateSet,
        call_tokens: int,
        scan: Scan,
        length: int,
        *,
        first: bool,
        earlier: Path = (),
    ) -> Closing:
        """When and how the grammar of the call must end. `call_tokens` is the number of the call's
        tokens so far, and `earlier` the completion that the previous check found.

        Each token uses one of the remaining tokens, and lengthens the shortest completion by at
        most the grammar's `growth`. The model stays free as long as there is room for one such
        token.
        """
        remaining = self.remaining(length)
        assert remaining is not None
        known = [grammar for grammar in candidates.grammars if grammar.least_tokens is not None]
        if not known:
            return Closing(NEVER)
        cost_per_token = 1 + max(grammar.growth for grammar in known)
        if candidates.in_prefix:
            spare = [
                remaining - self._upper_bound(each, call_tokens, first=first) for each in known
            ]
            if min(spare) > 0:
                return Closing(length + 1 + (min(spare) - 1) // cost_per_token)
            if len(known) > MAX_SEARCHED_CANDIDATES:
                # All of them fitted when the call began, so any one of them will do.
                known = [known[spare.index(max(spare))]]
        # Most tokens continue a string, which the earlier completion ends as before, or write a
        # part of that completion. Accepting its tokens takes a fraction of the time of a search.
        found: list[tuple[int, Path]] = []
        for path in dict.fromkeys((earlier, ())):
            found = self._completions(candidates, known, scan, remaining, path) or found
            if not found:
                return Closing(length + FREQUENT_SEARCH_TOKENS)
            least_spare = min(spare for spare, _ in found)
            searches_skipped = max(len(path) for _, path in found) // FREQUENT_SEARCH_TOKENS
            if least_spare > searches_skipped * cost_per_token:
                next_check = length + 1 + (least_spare - 1) // cost_per_token
                return Closing(next_check, completion=found[0][1])
        # The completion with the most spare tokens: if the name is not complete, the shortest call.
        return Closing(length + 1, forced=max(found)[1])

    def _completions(
        self,
        candidates: CandidateSet,
        grammars: Sequence[MeasuredGrammar],
        scan: Scan,
        remaining: int,
        earlier: Path,
    ) -> list[tuple[int, Path]]:
        """A completion of each grammar that has one, with the number of spare tokens. It ends with
        `earlier` or a rest of it where that is possible."""
        found: list[tuple[int, Path]] = []
        for grammar, matcher in candidates.matchers(grammars):
            path = self._static.completion.path(matcher, scan, grammar.hints, earlier)
            if path is not None:
                after = self._tokens.after_grammar(grammar.name)
                found.append((remaining - len(path) - after - grammar.growth, tuple(path)))
        return found

    def _upper_bound(self, grammar: MeasuredGrammar, call_tokens: int, *, first: bool) -> int:
        """Maximum number of tokens to the end of the turn for a call that is inside its fixed
        prefix, plus `growth`.

        No search is made here, because it takes a millisecond for each of hundreds of candidates.
        The rest of a prefix can take more tokens than the whole prefix, but not more than it has
        bytes.
        """
        assert grammar.least_tokens is not None
        prefix_bytes = len(grammar.fixed_prefix) if call_tokens else 0
        head = self._tokens.head_count(grammar.name, first)
        after = self._tokens.after_grammar(grammar.name)
        return head + grammar.least_tokens + prefix_bytes + grammar.growth + after
