"""What all phases share: the constraints of a sequence, and forced tokens."""

from __future__ import annotations

from ...grammars.compiled_grammar import MeasuredGrammar
from ..permissions import Permissions
from ..spec import Spec
from ..state import Phase, State
from ..static_masks import StaticMasks

replace = State._replace


class PhaseSteps:
    """The constraints of one sequence. `length` is the number of tokens of the response so far."""

    def __init__(
        self,
        static: StaticMasks,
        spec: Spec,
        permissions: Permissions,
        content: MeasuredGrammar | None,
    ) -> None:
        self._static = static
        self._texts = static.texts
        self._spec = spec
        self._permissions = permissions
        self._content = content
        self._content_ends = static.content_ends
        self._call_ends = static.call_ends
        self._longest_history = max((len(word) - 1 for word in spec.bad_words), default=0)

    def _begin(self, state: State, phase: Phase, length: int) -> State:
        """The state at the beginning of `phase`."""
        raise NotImplementedError

    def _force(self, state: State, tokens: tuple[int, ...], then: Phase, length: int) -> State:
        """`state` with `tokens` to come, and then the phase `then`."""
        if not tokens:
            return self._begin(state, then, length)
        return replace(state, forced=tokens, after_forced=then)

    def _call_id(self, index: int) -> str:
        return self._static.call_ids.call_id(self._spec, index)

    def _grammar_step(self, state: State, token: int) -> State | None:
        """The state after a token of the grammars of the state."""
        assert state.candidates is not None
        if not state.candidates.accept(token):
            return None
        scan = state.scan
        if self._spec.close_at_budget or self._spec.repetition_tokens:
            scan = scan.after(self._static.token_bytes[token])
        return state.after_grammar_token(scan)

    def _free_text_step(self, state: State, token: int, reasoning_tokens: int) -> State | None:
        """The state after a token of reasoning or free content; None if it is no text."""
        static, count = self._static, self._longest_history
        if token in static.special or static.completes_mark(state.partial_mark, token):
            return None
        if token in self._permissions.banned_tokens(state):
            return None
        recent = (*state.recent_tokens, token)[-count:] if count else ()
        partial = static.partial(self._texts.spelled_mark, state.partial_mark, token)
        same = state.partial_mark == partial and state.recent_tokens == recent
        if same and state.reasoning_tokens == reasoning_tokens and not state.may_reason:
            return state  # as at most tokens of content
        return replace(
            state,
            partial_mark=partial,
            recent_tokens=recent,
            reasoning_tokens=reasoning_tokens,
            may_reason=False,
        )

    def _track(self, after: State, partial: bytes) -> State:
        """`after`, with the beginning of the text that ends the phase."""
        if partial == after.partial_trigger:
            return after
        return replace(after, partial_trigger=partial)
