"""A sequence's limits on tokens: where they decide, and what they leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .budget import Budget
from .spec import Spec
from .state import UNLIMITED, Phase, Remaining, State
from .turn_graph import Entry

NEVER = 2**62
TOKENS_BETWEEN_CHECKS = 64
"""A sequence is checked for repetition at every so many tokens."""
LEAST_REPEATS = 8


def repeats(tokens: Sequence[int], length: int) -> int:
    """Return the number of tokens that are repeated, if the last `length` tokens are one sequence
    of tokens that is repeated at least `LEAST_REPEATS` times; 0 if they are not.

    A model that has lost its way may repeat the same text in a string, or the same items in an
    array, up to the token limit. Only exact repetition of tokens counts, and much more of it than
    in real calls: a table of zeros or a ruled line is not meant."""
    if length < LEAST_REPEATS or len(tokens) < length:
        return 0
    last = list(tokens[-length:])
    periods = range(1, length // LEAST_REPEATS + 1)
    found = (n for n in periods if last[-1] == last[-1 - n] and last[n:] == last[:-n])
    return next(found, 0)


class Progress(NamedTuple):
    """What a sequence knows beside its node. It changes where something begins or ends."""

    entry: Entry | None = None
    """That of a node of a grammar's graph."""
    began: int = 0
    """The length at which the text of the state's candidates began."""
    reasoning: int = 0
    """Number of reasoning tokens before `thinking`."""
    thinking: int | None = None
    """The length at which the present reasoning began; None if there is none."""
    repetitions: int = 0
    """How often the text of the state's candidates has repeated itself."""
    excluded: frozenset[int] = frozenset()
    """Tokens that must not come at the length `exclude_at`, unless no other one is allowed."""
    exclude_at: int = NEVER
    check_at: int = NEVER
    """The length at which to check whether the text repeats itself."""
    limited_from: int = NEVER
    """The length from which on limits on tokens may decide, so that edges and masks of the node do
    not hold."""

    def reasoning_at(self, length: int) -> int:
        """Return the number of reasoning tokens at this length of the sequence."""
        return self.reasoning + (0 if self.thinking is None else length - self.thinking)


FREE = (Phase.THINKING, Phase.CONTENT)
"""The phases in which what remains of a budget may decide at each token."""


class TokenLimits:
    """Not thread-safe."""

    def __init__(self, spec: Spec, calls: Budget, budget: int | None) -> None:
        """`calls`: the lengths of calls. `budget`: maximum number of tokens of the sequence; None:
        unlimited."""
        self._budget = budget
        self._min_tokens = spec.min_tokens
        self._reasoning = spec.reasoning_budget
        self._usual_call = calls.usual_call(spec)
        self._ample_until = NEVER
        if budget is not None:
            self._ample_until = budget - calls.ample(self._usual_call)
        self._repetition = spec.repetition_tokens

    def remaining(self, progress: Progress, state: State, length: int) -> Remaining:
        """What is left after `length` tokens; UNLIMITED where the limits decide nothing."""
        remaining = UNLIMITED
        if length > self._ample_until:
            assert self._budget is not None
            remaining = Remaining(self._budget - length, self._usual_call)
        if length < self._min_tokens:
            remaining = remaining._replace(early=True)
        most = self._reasoning
        if most is not None and _is_thinking(state) and progress.reasoning_at(length) >= most:
            remaining = remaining._replace(reasoning_spent=True)
        return remaining

    def progress_at(
        self, state: State, entry: Entry | None, length: int, before: Progress
    ) -> Progress:
        """Return the progress after a token that led to `state` and to this length."""
        began, repetitions = before.began, before.repetitions
        if state.candidates is not None and not state.candidates.touched:
            began, repetitions = length, 0
        reasoning, thinking = before.reasoning, before.thinking
        if thinking is not None and not _is_thinking(state):
            reasoning, thinking = before.reasoning_at(length - 1), None
        elif thinking is None and _is_thinking(state):
            thinking = length
        progress = Progress(entry, began, reasoning, thinking, repetitions)
        return self.scheduled(progress, state, length)

    def scheduled(self, progress: Progress, state: State, length: int) -> Progress:
        """Return the progress, with the lengths at which something has to be decided."""
        check_at = limited_from = NEVER
        if not state.forced:
            if self._repetition and state.phase in (Phase.TOOL_CALL, Phase.FORMAT):
                least = max(length + 1 - progress.began, self._repetition)
                checks = -(-least // TOKENS_BETWEEN_CHECKS)
                check_at = progress.began + checks * TOKENS_BETWEEN_CHECKS
            if state.phase in FREE:
                limited_from = self._limited_from(progress, length)
        if length <= progress.exclude_at < NEVER:
            limited_from = min(limited_from, progress.exclude_at)
        return progress._replace(check_at=check_at, limited_from=limited_from)

    def repeated(self, state: State, tokens: Sequence[int]) -> int | None:
        """Return the token with which a text goes on to repeat itself; None if it does not.
        `tokens` are those of the state's candidates."""
        candidates = state.candidates
        if state.forced or candidates is None or candidates.finished or candidates.in_prefix:
            return None
        if len(tokens) % TOKENS_BETWEEN_CHECKS:
            return None
        repeated = repeats(tokens, self._repetition)
        return tokens[-repeated] if repeated else None

    def _limited_from(self, progress: Progress, length: int) -> int:
        """Return the length, at least `length`, from which on a free phase may not be the one
        without limits."""
        if length < self._min_tokens:
            return length
        decides = self._ample_until + 1
        if progress.thinking is not None and self._reasoning is not None:
            decides = min(decides, progress.thinking + self._reasoning - progress.reasoning)
        return decides


def _is_thinking(state: State) -> bool:
    return state.phase is Phase.THINKING and not state.forced
