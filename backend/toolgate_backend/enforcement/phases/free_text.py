"""Free text: what reasoning and content have in common, and THINKING, which is reasoning."""

from __future__ import annotations

from ...tokens import masks
from ..state import Phase, Room, State
from .phase import Rules


class FreeText:
    def __init__(self, rules: Rules) -> None:
        self._model = rules.model
        self._permissions = rules.permissions
        self._spelled_mark = rules.model.texts.spelled_mark
        self._history = max((len(word) - 1 for word in rules.spec.bad_words), default=0)
        """Number of tokens that the longest banned sequence has before its last one."""

    def step(self, state: State, token: int) -> State | None:
        """The state after a token of text; None if it is no text, or may not come."""
        model, partial = self._model, state.partial_mark
        if token in model.special or model.completes_mark(partial, token):
            return None
        if token in self._permissions.banned_tokens(state):
            return None
        recent = (*state.recent_tokens, token)[-self._history :] if self._history else ()
        return state._replace(
            partial_mark=model.partial(self._spelled_mark, partial, token),
            recent_tokens=recent,
            may_reason=False,
        )


class Thinking:
    """THINKING: free text until the end of the reasoning."""

    def __init__(self, rules: Rules, text: FreeText) -> None:
        self._rules = rules
        self._text = text
        self._permissions = rules.permissions
        self._model = rules.model
        self._end = rules.model.texts.reasoning_end

    def mask(self, state: State, room: Room) -> masks.Mask:
        end = self._end
        assert end is not None
        if self._permissions.must_end_reasoning(state, room):
            return masks.single(end.tokens[0])
        ending, beyond = end.ending(state.partial_trigger)
        banned = self._permissions.banned_tokens(state) | beyond
        marks = ending & self._model.special
        return self._model.free_text_mask(marks, state.partial_mark, banned)

    def step(self, state: State, room: Room, token: int) -> State | None:
        end, turn = self._end, self._rules.turn
        assert end is not None
        if end.ends(state.partial_trigger, token):
            return turn.force(state, end.rest, Phase.CONTENT, room.less(1))
        if self._permissions.must_end_reasoning(state, room):
            first, *rest = end.tokens
            if token != first:
                return None
            return turn.force(state, tuple(rest), Phase.CONTENT, room.less(1))
        if end.overshoots(state.partial_trigger, token):
            return None
        after = self._text.step(state, token)
        if after is None:
            return None
        return after._replace(partial_trigger=end.partial(state.partial_trigger, token))
