"""Calls that begin with the name of a tool at the start of the turn, without a mark before it.

The text is content as long as it can become something else, and a call once it has a tool's name
with the text that follows names.
"""

from __future__ import annotations

from ..state import State
from .base import replace
from .calls import CallPhases


class NamedCallPhase(CallPhases):
    def _name_banned(self, state: State, length: int) -> frozenset[int]:
        """The tokens that complete the beginning of a call that may not follow."""
        if not state.at_start:
            return frozenset()
        index = self._texts.all_text
        assert index is not None
        written = state.partial_trigger
        rests = [t[len(written) :] for t in self._name_triggers() if t.startswith(written)]
        tokens = {token for rest in rests for token in index.starting_with(rest)}
        return frozenset(t for t in tokens if self._named_call(state, length, t) is None)

    def _named_call(self, state: State, length: int, token: int) -> State | None:
        """The state in the call that `token` begins; None if it begins none, or may not."""
        text = state.partial_trigger + self._static.unit_bytes[token]
        if not self._begins_call(text):
            return None
        if not self._permissions.may_begin_call(state, length):
            return None
        grammars = self._permissions.budget.fitting_grammars(length, first=True)
        if not self._static.may_continue(grammars, self._call_id(0), text):
            return None
        return self._begin_call(state, length, text)

    def _named_call_step(self, state: State, length: int, token: int, after: State) -> State | None:
        """The state after a token of content at the start of the turn; `after` is the one if the
        content goes on."""
        text = state.partial_trigger + self._static.unit_bytes[token]
        if self._begins_call(text):
            return self._named_call(state, length, token)
        if any(trigger.startswith(text) for trigger in self._name_triggers()):
            return replace(after, partial_trigger=text)
        return replace(after, partial_trigger=b"", at_start=False)

    def _begins_call(self, text: bytes) -> bool:
        return any(text.startswith(trigger) for trigger in self._name_triggers())

    def _name_triggers(self) -> list[bytes]:
        """The texts that begin the calls of the request's tools."""
        return self._static.heads(self._permissions.budget.grammars)
