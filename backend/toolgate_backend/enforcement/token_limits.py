"""A sequence's limits on tokens: from which length on they may decide, and what they leave."""

from __future__ import annotations

from .budget import Budget
from .closing import NEVER
from .room import UNLIMITED, Room
from .spec import Spec


class TokenLimits:
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

    def room(self, length: int, reasoning: int | None) -> Room:
        """What is left after `length` tokens; UNLIMITED where the limits decide nothing.
        `reasoning`: number of reasoning tokens so far; None outside of reasoning."""
        room = UNLIMITED
        if length > self._ample_until:
            assert self._budget is not None
            room = Room(self._budget - length, self._usual_call)
        if length < self._min_tokens:
            room = room._replace(early=True)
        if reasoning is not None and self._reasoning is not None and reasoning >= self._reasoning:
            room = room._replace(reasoning_spent=True)
        return room

    def decide_from(self, length: int, thinking: int | None, reasoning: int) -> int:
        """The length, at least `length`, from which on a free phase may not be the one without
        limits. `thinking`: the length at which the present reasoning began; `reasoning`: number of
        reasoning tokens before it."""
        if length < self._min_tokens:
            return length
        decides = self._ample_until + 1
        if thinking is not None and self._reasoning is not None:
            decides = min(decides, thinking + self._reasoning - reasoning)
        return decides
