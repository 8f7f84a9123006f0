"""Ends of calls that a sequence is forced to: before its budget is used up, or because it repeats
itself.

How often this is looked for, and what was found last, belongs to the sequence (`Plan`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..grammars.compiled_grammar import MeasuredGrammar
from ..grammars.completions.json_texts import Path, Scan
from .calls.call_text import CallText
from .calls.candidates import Candidates
from .model_data import ModelData
from .spec import Spec
from .state import Phase, State

TOKENS_BETWEEN_CHECKS = 64
LEAST_REPEATS = 8


def repeats(tokens: Sequence[int], length: int) -> bool:
    """Whether the last `length` tokens are one sequence of tokens that is repeated at least
    `LEAST_REPEATS` times.

    A model that has lost its way may repeat the same text in a string, or the same items in an
    array, up to the token limit. Only exact repetition of tokens counts, and much more of it than
    in real calls: a table of zeros or a ruled line is not meant."""
    if length < LEAST_REPEATS or len(tokens) < length:
        return False
    last = list(tokens[-length:])
    return any(
        last[-1] == last[-1 - period] and last[period:] == last[:-period]
        for period in range(1, length // LEAST_REPEATS + 1)
    )


NEVER = 2**62
FREQUENT_SEARCH_TOKENS = 64
"""Length of a completion up to which it may be searched again at every token. A longer one takes
longer to find and is searched less often."""
MAX_SEARCHED_CANDIDATES = 8
"""Maximum number of candidates whose completions are searched."""


class Plan(NamedTuple):
    """When the budget is looked at again."""

    at: int = 0
    """The length of the sequence."""
    completion: Path = ()
    """The completion of the call that was found last."""


class _Closing(NamedTuple):
    plan: Plan
    forced: Path = ()
    """The tokens that must follow; none if it is not yet time."""


class Closer:
    """Not thread-safe."""

    def __init__(self, model: ModelData, spec: Spec, budget: int | None) -> None:
        self._model = model
        self._tokens = model.call_tokens
        self._closes = spec.close_at_budget and budget is not None
        self._budget = budget or 0
        self._repetition = spec.repetition_tokens
        self._text = CallText(model.token_bytes)

    def next_look(self, state: State, began: int, length: int, plan: Plan) -> int:
        """The length at which `look` is needed next, from `length` on. `began` is the length at
        which the text of the candidates began."""
        if state.phase not in (Phase.TOOL_CALL, Phase.FORMAT):
            return NEVER
        look = NEVER
        if self._repetition:
            least = max(length + 1 - began, self._repetition)
            look = began + -(-least // TOKENS_BETWEEN_CHECKS) * TOKENS_BETWEEN_CHECKS
        if self._closes and state.phase is Phase.TOOL_CALL:
            look = min(look, max(length, plan.at))
        return look

    def look(
        self, state: State, tokens: Sequence[int], length: int, plan: Plan
    ) -> tuple[State, Plan]:
        """The state, with the end of its call forced if it must end. `tokens` are those of the
        candidates, the last ones of a sequence of `length`."""
        candidates = state.candidates
        if state.phase not in (Phase.TOOL_CALL, Phase.FORMAT) or state.forced:
            return state, plan
        if candidates is None or candidates.finished:
            return state, plan
        if self._repeats(candidates, tokens):
            return self._end_repetition(state, candidates, tokens), plan
        if not self._closes or state.phase is not Phase.TOOL_CALL or length < plan.at:
            return state, plan
        self._text.follow(candidates, tokens)
        remaining = self._budget - length
        found = self._at_budget(candidates, remaining, length, state.calls == 0, plan.completion)
        if found.forced:
            state = state._replace(forced=found.forced, closing=True)
        return state, found.plan

    # --- repetition ---

    def _repeats(self, candidates: Candidates, tokens: Sequence[int]) -> bool:
        length = self._repetition
        if not length or len(tokens) % TOKENS_BETWEEN_CHECKS or candidates.in_prefix:
            return False
        return repeats(tokens, length)

    def _end_repetition(self, state: State, candidates: Candidates, tokens: Sequence[int]) -> State:
        """Close the repeating string. If the repetition goes on, or is not in a string, close the
        call or content. The state stays as it is if no completion was found."""
        self._text.follow(candidates, tokens)
        completion, scan = self._model.completion, self._text.scan
        matchers = self._text.matchers(candidates.grammars)
        found = [completion.path(matcher, scan, each.hints) for each, matcher in matchers]
        path = min((path for path in found if path is not None), key=len, default=None)
        if not path:
            return state
        end = None if state.closing else self._string_end(path, scan)
        return state._replace(forced=tuple(path[:end]), closing=True)

    def _string_end(self, path: list[int], scan: Scan) -> int | None:
        """Number of tokens of the path that end the string of the position `scan`."""
        for count, token in enumerate(path if scan.in_string else (), start=1):
            scan = scan.after(self._model.token_bytes[token])
            if not scan.in_string:
                return count
        return None

    # --- the budget ---

    def _at_budget(
        self, candidates: Candidates, remaining: int, length: int, first: bool, earlier: Path
    ) -> _Closing:
        """When and how the grammar of the call must end. `earlier` is the completion that was found
        last.

        Each token uses one of the remaining tokens, and lengthens the shortest completion by at
        most the grammar's `growth`. The model stays free as long as there is room for one such
        token.
        """
        known = [grammar for grammar in candidates.grammars if grammar.least_tokens is not None]
        if not known:
            return _Closing(Plan(NEVER))
        cost_per_token = 1 + max(grammar.growth for grammar in known)
        if candidates.in_prefix:
            bounds = (self._upper_bound(each, candidates.touched, first) for each in known)
            spare = [remaining - bound for bound in bounds]
            if min(spare) > 0:
                return _Closing(Plan(length + 1 + (min(spare) - 1) // cost_per_token))
            if len(known) > MAX_SEARCHED_CANDIDATES:
                # All of them fitted when the call began, so any one of them will do.
                known = [known[spare.index(max(spare))]]
        # Most tokens continue a string, which the earlier completion ends as before, or write a
        # part of that completion. Accepting its tokens takes a fraction of the time of a search.
        found: list[tuple[int, Path]] = []
        for path in dict.fromkeys((earlier, ())):
            found = self._completions(known, remaining, path) or found
            if not found:
                return _Closing(Plan(length + FREQUENT_SEARCH_TOKENS))
            least_spare = min(spare for spare, _ in found)
            searches_skipped = max(len(path) for _, path in found) // FREQUENT_SEARCH_TOKENS
            if least_spare > searches_skipped * cost_per_token:
                next_look = length + 1 + (least_spare - 1) // cost_per_token
                return _Closing(Plan(next_look, found[0][1]))
        # The completion with the most spare tokens: if the name is not complete, the shortest call.
        return _Closing(Plan(length + 1), forced=max(found)[1])

    def _completions(
        self, grammars: Sequence[MeasuredGrammar], remaining: int, earlier: Path
    ) -> list[tuple[int, Path]]:
        """A completion of each grammar that has one, with the number of spare tokens. It ends with
        `earlier` or a rest of it where that is possible."""
        found: list[tuple[int, Path]] = []
        scan = self._text.scan
        for grammar, matcher in self._text.matchers(grammars):
            path = self._model.completion.path(matcher, scan, grammar.hints, earlier)
            if path is not None:
                after = self._tokens.after_grammar(grammar.name)
                found.append((remaining - len(path) - after - grammar.growth, tuple(path)))
        return found

    def _upper_bound(self, grammar: MeasuredGrammar, begun: bool, first: bool) -> int:
        """Maximum number of tokens to the end of the turn for a call that is inside its fixed
        prefix, plus `growth`.

        No search is made here, because it takes a millisecond for each of hundreds of candidates.
        The rest of a prefix can take more tokens than the whole prefix, but not more than it has
        bytes.
        """
        assert grammar.least_tokens is not None
        prefix_bytes = len(grammar.fixed_prefix) if begun else 0
        head = self._tokens.head_count(grammar.name, first)
        after = self._tokens.after_grammar(grammar.name)
        return head + grammar.least_tokens + prefix_bytes + grammar.growth + after
