"""Calls that begin with the name of a tool at the start of the turn, without a mark before it.

The text is content as long as it can become something else, and a call once it has a tool's name
with the text that follows names.
"""

from __future__ import annotations

from ..permissions import NOTHING
from ..room import Room
from ..state import State
from .phase import Rules


class NamedCalls:
    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._permissions = rules.permissions
        self._model = rules.model
        self._triggers = rules.model.heads(rules.permissions.budget.grammars)
        """The texts that begin the calls of the request's tools."""

    def banned(self, state: State, room: Room) -> frozenset[int]:
        """The tokens that complete the beginning of a call that may not follow."""
        if not state.at_start:
            return NOTHING
        index = self._model.texts.all_text
        assert index is not None
        written = state.partial_trigger
        rests = [t[len(written) :] for t in self._triggers if t.startswith(written)]
        tokens = {token for rest in rests for token in index.starting_with(rest)}
        return frozenset(t for t in tokens if self._call(state, room, t) is None)

    def step(self, state: State, room: Room, token: int, after: State) -> State | None:
        """The state after a token of content at the start of the turn; `after` is the one if the
        content goes on."""
        text = state.partial_trigger + self._model.unit_bytes[token]
        if self._begins_call(text):
            return self._call(state, room, token)
        if any(trigger.startswith(text) for trigger in self._triggers):
            return after._replace(partial_trigger=text)
        return after._replace(partial_trigger=b"", at_start=False)

    def _call(self, state: State, room: Room, token: int) -> State | None:
        """The state in the call that `token` begins; None if it begins none, or may not."""
        text = state.partial_trigger + self._model.unit_bytes[token]
        if not self._begins_call(text):
            return None
        if not self._permissions.may_begin_call(state, room):
            return None
        grammars = self._permissions.budget.fitting_grammars(room, first=True)
        if not self._model.may_continue(grammars, self._rules.call_id(0), text):
            return None
        return self._rules.turn.begin_call(room, text)

    def _begins_call(self, text: bytes) -> bool:
        return any(text.startswith(trigger) for trigger in self._triggers)
