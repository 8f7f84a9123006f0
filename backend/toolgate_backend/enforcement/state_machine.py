"""The enforcement state machine of one sequence.

    THINKING ─▶ CONTENT ─▶ TOOL_CALL ─▶ SELECT ─▶ END
                   │            ▲          │
                   │            └──────────┘  another call
                   └─▶ FORMAT ─▶ END          content that is constrained by a schema

Each phase has two methods in phases/: `_PHASE_mask` returns the tokens allowed next, `_PHASE_step`
returns the state after a token, or None if the token is not allowed.

The free phases THINKING and CONTENT need no grammar. They allow all ordinary tokens and, of the
special tokens, only the marks of the phase. The candidates (candidates.py) decide inside TOOL_CALL,
SELECT and FORMAT. Other text that the dialect prescribes is forced token by token. permissions.py
and budget.py contain the limits on calls and tokens.
"""

from __future__ import annotations

from ..tokens import masks
from .phases.base import replace
from .phases.content import ContentPhases
from .state import Phase, State


class StateMachine(ContentPhases):
    """The transitions of one sequence. `length` is the number of tokens of the response so far."""

    def initial_state(self) -> State:
        """The state before the first token of the response."""
        spec, tokens = self._spec, self._static.call_tokens
        match spec.reasoning:
            case "open" if spec.skip_reasoning and tokens.reasoning_end:
                return self._force(State(Phase.THINKING), tokens.reasoning_end, Phase.CONTENT, 0)
            case "open":
                return State(Phase.THINKING)
            case "must" if tokens.reasoning_begin:
                return self._force(State(Phase.CONTENT), tokens.reasoning_begin, Phase.THINKING, 0)
            case "content" if self._texts.has_messages:
                return self._inside_content()
            case _:
                may_reason = spec.reasoning == "may"
                candidates = self._content_candidates(0, may_reason=may_reason)
                return State(Phase.CONTENT, may_reason=may_reason, candidates=candidates)

    def resumed(self, state: State, length: int) -> State:
        """A state of another machine with this one's grammars and budget, if calls precede it.
        Unchanged if a text has begun that this one does not allow."""
        candidates = state.candidates
        if state.phase not in (Phase.SELECT, Phase.TOOL_CALL) or not state.calls:
            return state
        if candidates is None or state.forced:
            return state
        at = length - state.grammar_tokens
        own: State | None = self._begin_select(replace(state, calls=state.calls - 1), at)
        for token in candidates.tokens[: state.grammar_tokens]:
            own = own and self.step(own, at, token)
            at += 1
        return own or state

    def mask(self, state: State, length: int) -> masks.Mask:
        """The tokens allowed next. Raises NoTokenAllowed if there are none."""
        if state.forced:
            return masks.single(state.forced[0])
        match state.phase:
            case Phase.THINKING:
                return self._thinking_mask(state, length)
            case Phase.CONTENT:
                return self._content_mask(state, length)
            case Phase.FORMAT:
                return self._format_mask(state)
            case Phase.TOOL_CALL:
                return self._call_mask(state)
            case Phase.SELECT:
                return self._select_mask(state)
            case Phase.END:
                return masks.Allow(masks.token_ids(self._end_tokens(state)))

    def step(self, state: State, length: int, token: int) -> State | None:
        """The state after `token`; None if the token is not allowed."""
        if state.ended:
            ends = frozenset(self._static.marks.end_of_turn) | self._closed_ends
            return state if token in ends else None
        after = self._step(state, length, token)
        return None if after is None else self._close_if_needed(after, length + 1)

    def _step(self, state: State, length: int, token: int) -> State | None:
        if state.forced:
            return self._forced_step(state, length, token)
        if state.phase is Phase.TOOL_CALL:
            return self._call_step(state, length, token)
        match state.phase:
            case Phase.THINKING:
                return self._thinking_step(state, length, token)
            case Phase.CONTENT:
                return self._content_step(state, length, token)
            case Phase.FORMAT:
                return self._format_step(state, length, token)
            case Phase.SELECT:
                return self._select_step(state, length, token)
            case Phase.END:
                return replace(state, ended=True) if token in self._end_tokens(state) else None

    def _forced_step(self, state: State, length: int, token: int) -> State | None:
        if token != state.forced[0]:
            return None
        rest, then = state.forced[1:], state.after_forced
        state = replace(state, forced=rest)
        if then is None:  # the shortest completion of a call or of constrained content
            if state.phase is Phase.FORMAT:
                return self._format_step(state, length, token)
            return self._call_step(state, length, token)
        return state if rest else self._begin(replace(state, after_forced=None), then, length + 1)

    def _begin(self, state: State, phase: Phase, length: int) -> State:
        if phase is Phase.THINKING:
            return self._begin_thinking(state)
        if phase is Phase.CONTENT and state.phase is Phase.THINKING:
            return self._begin_content(state, length)
        if phase is Phase.SELECT and state.phase is Phase.CONTENT:
            return self._after_content(state, length)
        if phase is Phase.SELECT:
            return self._begin_select(state, length)
        return replace(state, phase=phase)
