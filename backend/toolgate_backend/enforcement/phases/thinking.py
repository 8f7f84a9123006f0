"""THINKING: free text until the end of the reasoning."""

from __future__ import annotations

from ...tokens import masks
from ..state import Phase, State
from .base import PhaseSteps


class ThinkingPhase(PhaseSteps):
    def _begin_thinking(self, state: State) -> State:
        return State(Phase.THINKING, reasoning_tokens=state.reasoning_tokens)

    def _thinking_mask(self, state: State, length: int) -> masks.Mask:
        end = self._texts.reasoning_end
        assert end is not None
        if self._permissions.must_end_reasoning(state, length):
            return masks.single(end.tokens[0])
        ending, beyond = end.ending(state.partial_trigger)
        banned = self._permissions.banned_tokens(state) | beyond
        marks = ending & self._static.special
        return self._static.free_text_mask(marks, state.partial_mark, banned)

    def _thinking_step(self, state: State, length: int, token: int) -> State | None:
        end = self._texts.reasoning_end
        assert end is not None
        if end.ends(state.partial_trigger, token):
            return self._force(state, end.rest, Phase.CONTENT, length + 1)
        if self._permissions.must_end_reasoning(state, length):
            first, *rest = end.tokens
            forced = tuple(rest)
            return self._force(state, forced, Phase.CONTENT, length + 1) if token == first else None
        if end.overshoots(state.partial_trigger, token):
            return None
        after = self._free_text_step(state, token, state.reasoning_tokens + 1)
        return after and self._track(after, end.partial(state.partial_trigger, token))
