"""END: nothing but the token that ends the turn."""

from __future__ import annotations

from ...tokens import masks
from ..room import Room
from ..state import State
from .phase import Rules
from .select import Select


class End:
    def __init__(self, rules: Rules, select: Select) -> None:
        self._rules = rules
        self._select = select

    def mask(self, state: State, _: Room) -> masks.Mask:
        return masks.Allow(masks.token_ids(self._select.end_tokens(state)))

    def step(self, state: State, _: Room, token: int) -> State | None:
        if state.ended:
            ends = frozenset(self._rules.model.marks.end_of_turn) | self._rules.closed_ends
            return state if token in ends else None
        return state._replace(ended=True) if token in self._select.end_tokens(state) else None
