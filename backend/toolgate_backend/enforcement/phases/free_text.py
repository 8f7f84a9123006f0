"""Free text: what reasoning and content have in common."""

from __future__ import annotations

from ..state import State
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
