"""The enforcement state machine of one sequence.

    THINKING ─▶ CONTENT ─▶ TOOL_CALL ─▶ SELECT ─▶ END
                   │            ▲          │
                   │            └──────────┘  another call
                   └─▶ FORMAT ─▶ END          content that is constrained by a schema

Each phase has two methods, in the order of the phases: `_PHASE_mask` returns the tokens allowed
next, `_PHASE_step` returns the state after a token, or None if the token is not allowed.

The free phases THINKING and CONTENT need no grammar. They allow all ordinary tokens and, of the
special tokens, only the marks of the phase. The candidates' grammars (candidates.py) decide inside
TOOL_CALL and FORMAT. Text that the dialect prescribes is forced token by token. permissions.py and
budget.py contain the limits on calls and tokens.
"""

from __future__ import annotations

from ..grammars.compiled_grammar import MeasuredGrammar
from ..tokens import masks
from .candidates import CandidateSet
from .permissions import Permissions
from .spec import Spec
from .state import Phase, State
from .static_masks import StaticMasks

replace = State._replace


class StateMachine:
    """The transitions of one sequence. `length` is the number of tokens of the response so far."""

    def __init__(
        self,
        static: StaticMasks,
        spec: Spec,
        permissions: Permissions,
        content: MeasuredGrammar | None,
    ) -> None:
        self._static = static
        self._spec = spec
        self._permissions = permissions
        self._content = content
        self._ends = frozenset(static.marks.end_of_turn)
        closed = static.marks.closed
        self._closed_ends = self._ends if closed is None else frozenset({closed})
        self._longest_history = max((len(word) - 1 for word in spec.bad_words), default=0)

    def initial_state(self) -> State:
        """The state before the first token of the response."""
        marks, spec = self._static.marks, self._spec
        match spec.reasoning:
            case "open" if spec.skip_reasoning and marks.reasoning_end is not None:
                return State(Phase.THINKING, forced=(marks.reasoning_end,))
            case "open":
                return State(Phase.THINKING)
            case "must" if marks.reasoning_begin is not None:
                return State(Phase.CONTENT, forced=(marks.reasoning_begin,))
            case _:
                may_reason = spec.reasoning == "may"
                candidates = self._content_candidates()
                return State(Phase.CONTENT, may_reason=may_reason, candidates=candidates)

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
                return self._select_mask(state, length)
            case Phase.END:
                return self._end_mask(state)

    def step(self, state: State, length: int, token: int) -> State | None:
        """The state after `token`; None if the token is not allowed."""
        if state.ended:
            return state if token in self._ends | self._closed_ends else None
        after = self._step(state, length, token)
        return None if after is None else self._close_if_needed(after, length + 1)

    def _step(self, state: State, length: int, token: int) -> State | None:
        if state.forced:
            return self._forced_step(state, length, token)
        match state.phase:
            case Phase.THINKING:
                return self._thinking_step(state, length, token)
            case Phase.CONTENT:
                return self._content_step(state, length, token)
            case Phase.FORMAT:
                return self._format_step(state, token)
            case Phase.TOOL_CALL:
                return self._call_step(state, token)
            case Phase.SELECT:
                return self._select_step(state, length, token)
            case Phase.END:
                return self._end_step(state, token)

    # --- forced tokens, in any phase ---

    def _forced_step(self, state: State, length: int, token: int) -> State | None:
        if token != state.forced[0]:
            return None
        state = replace(state, forced=state.forced[1:])
        if state.phase is Phase.TOOL_CALL:
            return self._call_step(state, token)
        return self._after_mark(state, length, token)

    def _after_mark(self, state: State, length: int, token: int) -> State:
        """The state after an allowed token: a new phase if the token is a mark that begins one."""
        marks = self._static.marks
        if token == marks.reasoning_begin:
            return self._begin_thinking(state)
        if token == marks.reasoning_end and state.phase is Phase.THINKING:
            return self._begin_content(state)
        if token == marks.call_begin:
            return self._begin_call(state, length)
        return state

    # --- THINKING ---

    def _begin_thinking(self, state: State) -> State:
        state = replace(state, phase=Phase.THINKING, may_reason=False)
        return replace(state, partial_mark=b"", candidates=None)

    def _thinking_mask(self, state: State, length: int) -> masks.Mask:
        if self._permissions.must_end_reasoning(state, length):
            return masks.single(self._static.marks.reasoning_end)
        banned = self._permissions.banned_tokens(state)
        marks = self._static.reasoning_end_marks
        return self._static.free_text_mask(marks, state.partial_mark, banned)

    def _thinking_step(self, state: State, length: int, token: int) -> State | None:
        if token == self._static.marks.reasoning_end:
            return self._begin_content(state)
        if self._permissions.must_end_reasoning(state, length):
            return None
        return self._free_text_step(state, token, state.reasoning_tokens + 1)

    def _free_text_step(self, state: State, token: int, reasoning_tokens: int) -> State | None:
        static, count = self._static, self._longest_history
        if token in static.special or static.completes_mark(state.partial_mark, token):
            return None
        if token in self._permissions.banned_tokens(state):
            return None
        recent = (*state.recent_tokens, token)[-count:] if count else ()
        partial = static.partial_mark(state.partial_mark, token)
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

    # --- CONTENT ---

    def _begin_content(self, state: State) -> State:
        return State(
            Phase.CONTENT,
            forced=self._static.after_reasoning,
            reasoning_tokens=state.reasoning_tokens,
            candidates=self._content_candidates(),
        )

    def _content_candidates(self) -> CandidateSet | None:
        return self._static.candidate_set([self._content]) if self._content is not None else None

    def _content_mask(self, state: State, length: int) -> masks.Mask:
        permissions = self._permissions
        marks = permissions.content_marks(state, length)
        if permissions.call_required(state):
            return masks.Allow(masks.token_ids(marks))
        if state.candidates is not None:
            return masks.also_allow(state.candidates.mask(), marks)
        allowed = marks | permissions.content_ends(length)
        banned = permissions.banned_tokens(state)
        return self._static.free_text_mask(allowed, state.partial_mark, banned)

    def _content_step(self, state: State, length: int, token: int) -> State | None:
        permissions = self._permissions
        if token in permissions.content_marks(state, length):
            return self._after_mark(state, length, token)
        if permissions.call_required(state):
            return None
        if state.candidates is not None:
            return self._format_step(replace(state, phase=Phase.FORMAT, may_reason=False), token)
        if token in permissions.content_ends(length):
            return replace(state, phase=Phase.END, ended=True)
        after = self._free_text_step(state, token, state.reasoning_tokens)
        if after is not None and token in self._spec.stop_ids:
            return replace(after, phase=Phase.END)
        return after

    # --- FORMAT ---

    def _format_mask(self, state: State) -> masks.Mask:
        candidates = state.candidates
        assert candidates is not None
        if candidates.finished:
            return masks.Allow(masks.token_ids(self._ends))
        return masks.also_allow(candidates.mask(), self._ends if candidates.complete else ())

    def _format_step(self, state: State, token: int) -> State | None:
        candidates = state.candidates
        assert candidates is not None
        if token in self._ends and candidates.complete:
            return replace(state, phase=Phase.END, ended=True)
        return None if candidates.finished else self._grammar_step(state, token)

    # --- TOOL_CALL ---

    def _begin_call(self, state: State, length: int) -> State:
        grammars = self._permissions.budget.fitting_grammars(length + 1)
        return State(
            Phase.TOOL_CALL,
            calls=state.calls,
            reasoning_tokens=state.reasoning_tokens,
            candidates=self._static.candidate_set(grammars),
        )

    def _call_mask(self, state: State) -> masks.Mask:
        assert state.candidates is not None
        finished = state.candidates.finished
        return masks.single(self._static.marks.call_end) if finished else state.candidates.mask()

    def _call_step(self, state: State, token: int) -> State | None:
        assert state.candidates is not None
        if not state.candidates.finished:
            return self._grammar_step(state, token)
        return self._end_call(state) if token == self._static.marks.call_end else None

    def _grammar_step(self, state: State, token: int) -> State | None:
        assert state.candidates is not None
        if token in self._static.special or not state.candidates.accept(token):
            return None
        if self._spec.close_at_budget:
            state = replace(state, scan=state.scan.after(self._static.token_bytes[token]))
        return replace(state, grammar_tokens=state.grammar_tokens + 1)

    def _close_if_needed(self, state: State, length: int) -> State:
        """With `close_at_budget`: force the end of the call once no longer completion fits."""
        budget, candidates = self._permissions.budget, state.candidates
        if not self._spec.close_at_budget or budget.remaining(length) is None:
            return state
        if state.phase is not Phase.TOOL_CALL or candidates is None or candidates.finished:
            return state
        if state.forced or length < state.next_budget_check:
            return state
        forced, next_check = budget.closing_tokens(
            candidates, state.grammar_tokens, state.scan, length
        )
        return replace(state, forced=forced, next_budget_check=next_check, closing=bool(forced))

    # --- SELECT: another call, or the end ---

    def _end_call(self, state: State) -> State:
        calls = state.calls + 1
        another = not state.closing and self._permissions.within_call_limit(calls)
        phase = Phase.SELECT if another else Phase.END
        return replace(state, phase=phase, calls=calls, candidates=None)

    def _select_mask(self, state: State, length: int) -> masks.Mask:
        allowed = self._ends
        if self._permissions.may_add_call(state, length):
            allowed = allowed | {self._static.between_calls[0]}
        return masks.Allow(masks.token_ids(allowed))

    def _select_step(self, state: State, length: int, token: int) -> State | None:
        first, *forced = self._static.between_calls
        if token != first:
            return self._end_step(state, token)
        if not self._permissions.may_add_call(state, length):
            return None
        if forced:
            return replace(state, forced=tuple(forced))
        return self._after_mark(state, length, token)  # no separator: the mark begins the call

    # --- END ---

    def _end_tokens(self, state: State) -> frozenset[int]:
        return self._closed_ends if state.closing else self._ends

    def _end_mask(self, state: State) -> masks.Mask:
        return masks.Allow(masks.token_ids(self._end_tokens(state)))

    def _end_step(self, state: State, token: int) -> State | None:
        return replace(state, ended=True) if token in self._end_tokens(state) else None
