"""FORMAT: content that is constrained by a schema."""

from __future__ import annotations

from ...tokens import masks
from ..room import Room
from ..state import Phase, State
from .phase import Rules


class Format:
    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._model = rules.model
        self._content_end = rules.model.texts.content_end
        self._content_last = rules.model.texts.content_last

    def mask(self, state: State, _: Room) -> masks.Mask:
        candidates = state.candidates
        assert candidates is not None
        ends = self._ends(state)
        if candidates.finished:
            return masks.Allow(masks.token_ids(ends))
        return masks.also_allow(candidates.mask(), ends if candidates.complete else ())

    def step(self, state: State, room: Room, token: int) -> State | None:
        candidates = state.candidates
        assert candidates is not None
        if token in self._ends(state) and candidates.complete:
            if self._content_end is None or token == self._model.marks.closed:
                return state._replace(phase=Phase.END, ended=True)
            rest = (*self._content_end.tokens[1:], *self._content_last)
            return self._rules.turn.force(state, rest, Phase.END, room.less(1))
        return None if candidates.finished else self._rules.candidates_step(state, token)

    def _ends(self, state: State) -> frozenset[int]:
        """The tokens that end the content where it is complete."""
        if state.closing and self._model.marks.closed is not None:
            return self._rules.closed_ends
        end = self._content_end
        return self._model.content_ends if end is None else frozenset({end.tokens[0]})
