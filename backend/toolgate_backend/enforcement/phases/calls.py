"""TOOL_CALL: a call of one of the tools."""

from __future__ import annotations

from ...tokens import masks
from ..room import Room
from ..state import Phase, State
from .phase import Rules


class Calls:
    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._model = rules.model

    def begin(self, room: Room, written: bytes) -> State:
        """The state in the first call, of which `written` has been written."""
        grammars = self._rules.permissions.budget.fitting_grammars(room, first=True)
        calls = self._model.first_calls(grammars, self._rules.call_id(0))
        return State(Phase.TOOL_CALL, candidates=calls.begun(written))

    def mask(self, state: State, _: Room) -> masks.Mask:
        assert state.candidates is not None
        return state.candidates.mask()

    def step(self, state: State, room: Room, token: int) -> State | None:
        after = self._rules.candidates_step(state, token)
        return None if after is None else self.after_token(after, room.less(1))

    def after_token(self, state: State, room: Room) -> State:
        """The state after a token of a call. At the end of the grammar, the rest of the call's text
        is forced."""
        candidates = state.candidates
        assert candidates is not None
        if not candidates.finished:
            return state
        name = candidates.grammars[0].name
        tail = self._model.call_tokens.tail(name, self._rules.call_id(state.calls))
        whole = state._replace(candidates=None)
        return self._rules.turn.force(whole, tail, Phase.SELECT, room)
