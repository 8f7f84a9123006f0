"""A sequence's limits on tokens: where they decide, and what they leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .budget import Budget
from .closing import NEVER, Closer, Plan
from .model_data import ModelData
from .spec import Spec
from .state import UNLIMITED, Phase, Room, State
from .turn_graph import Entry


class Course(NamedTuple):
    """What a sequence knows beside its node. It changes where something begins or ends."""

    entry: Entry | None = None
    """That of a node of a grammar's graph."""
    began: int = 0
    """The length at which the text of the state's candidates began."""
    reasoning: int = 0
    """Number of reasoning tokens before `thinking`."""
    thinking: int | None = None
    """The length at which the present reasoning began; None if there is none."""
    plan: Plan = Plan()
    look: int = NEVER
    """The length at which to look whether the call must be closed."""
    limited: int = NEVER
    """The length from which on limits on tokens may decide, so that edges and masks of the node do
    not hold."""

    def reasoning_at(self, length: int) -> int:
        """The number of reasoning tokens at this length of the sequence."""
        return self.reasoning + (0 if self.thinking is None else length - self.thinking)


FREE = (Phase.THINKING, Phase.CONTENT)
"""The phases in which what remains of a budget may decide at each token."""


class TokenLimits:
    """Not thread-safe."""

    def __init__(self, model: ModelData, spec: Spec, calls: Budget, budget: int | None) -> None:
        """`calls`: the lengths of calls. `budget`: maximum number of tokens of the sequence; None:
        unlimited."""
        self._budget = budget
        self._min_tokens = spec.min_tokens
        self._reasoning = spec.reasoning_budget
        self._usual_call = calls.usual_call(spec)
        self._ample_until = NEVER
        if budget is not None:
            self._ample_until = budget - calls.ample(self._usual_call)
        self._closer = Closer(model, spec, budget)

    def room(self, course: Course, state: State, length: int) -> Room:
        """What is left after `length` tokens; UNLIMITED where the limits decide nothing."""
        room = UNLIMITED
        if length > self._ample_until:
            assert self._budget is not None
            room = Room(self._budget - length, self._usual_call)
        if length < self._min_tokens:
            room = room._replace(early=True)
        most = self._reasoning
        if most is not None and _is_thinking(state) and course.reasoning_at(length) >= most:
            room = room._replace(reasoning_spent=True)
        return room

    def course_at(self, state: State, entry: Entry | None, length: int, before: Course) -> Course:
        """The course of a sequence of this length, whose last token led to `state`. `before` is the
        one before that token."""
        began, plan = before.began, before.plan
        if state.candidates is not None and not state.candidates.touched:
            began, plan = length, Plan()
        reasoning, thinking = before.reasoning, before.thinking
        if thinking is not None and not _is_thinking(state):
            reasoning, thinking = before.reasoning_at(length - 1), None
        elif thinking is None and _is_thinking(state):
            thinking = length
        return self.scheduled(Course(entry, began, reasoning, thinking, plan), state, length)

    def scheduled(self, course: Course, state: State, length: int) -> Course:
        """The course, with the lengths at which something has to be decided."""
        look = limited = NEVER
        if not state.forced:
            look = self._closer.next_look(state, course.began, length, course.plan)
            if state.phase in FREE:
                limited = self._limited_from(course, length)
        entry, began, reasoning, thinking, plan, *_ = course
        return Course(entry, began, reasoning, thinking, plan, look, limited)

    def look(
        self, state: State, course: Course, tokens: Sequence[int], length: int
    ) -> tuple[State, Course]:
        """The state, with the end of its call forced if it must end, and the course then. `tokens`
        are those of the candidates."""
        state, plan = self._closer.look(state, tokens, length, course.plan)
        return state, self.scheduled(course._replace(plan=plan), state, length)

    def _limited_from(self, course: Course, length: int) -> int:
        """The length, at least `length`, from which on a free phase may not be the one without
        limits."""
        if length < self._min_tokens:
            return length
        decides = self._ample_until + 1
        if course.thinking is not None and self._reasoning is not None:
            decides = min(decides, course.thinking + self._reasoning - course.reasoning)
        return decides


def _is_thinking(state: State) -> bool:
    return state.phase is Phase.THINKING and not state.forced
