"""TOOL_CALL and SELECT: calls, and what may follow a call."""

from __future__ import annotations

from ...grammars.completions.scan import Scan
from ...tokens import masks
from ..calls.candidates import CandidateSet
from ..repetition import TOKENS_BETWEEN_CHECKS, repeats
from ..state import Phase, State
from .base import PhaseSteps, replace


class CallPhases(PhaseSteps):
    def _begin_call(self, state: State, length: int, written: bytes) -> State:
        """The state in the first call, of which `written` has been written."""
        grammars = self._permissions.budget.fitting_grammars(length, first=True)
        return State(
            Phase.TOOL_CALL,
            reasoning_tokens=state.reasoning_tokens,
            candidates=self._static.first_calls(grammars, self._call_id(0), written),
            scan=state.scan.after(written),
        )

    def _call_mask(self, state: State) -> masks.Mask:
        assert state.candidates is not None
        return state.candidates.mask()

    def _call_step(self, state: State, length: int, token: int) -> State | None:
        after = self._grammar_step(state, token)
        return after and self._end_grammar(after, length + 1)

    def _end_grammar(self, state: State, length: int) -> State:
        """The state after the grammar of a call: the rest of its text is forced."""
        candidates = state.candidates
        assert candidates is not None
        if not candidates.finished:
            return state
        name = candidates.grammars[0].name
        tail = self._static.call_tokens.tail(name, self._call_id(state.calls))
        if tail:
            return replace(state, forced=tail, after_forced=Phase.SELECT)
        return self._begin_select(state, length)

    def _close_if_needed(self, state: State, length: int) -> State:
        """Force the end of a call or of constrained content that repeats itself, or of a call that
        would exceed the budget."""
        if state.phase not in (Phase.TOOL_CALL, Phase.FORMAT) or state.forced:
            return state
        may_repeat = state.grammar_tokens % TOKENS_BETWEEN_CHECKS == 0
        closes = self._spec.close_at_budget and state.phase is Phase.TOOL_CALL
        if not may_repeat and not closes:
            return state
        candidates = state.candidates
        if candidates is None or candidates.finished:
            return state
        if may_repeat and self._repeats(candidates):
            return self._end_repetition(state, candidates)
        if not closes:
            return state
        return self._close_at_budget(state, candidates, length)

    def _repeats(self, candidates: CandidateSet) -> bool:
        length = self._spec.repetition_tokens
        return length > 0 and not candidates.in_prefix and repeats(candidates.tokens, length)

    def _end_repetition(self, state: State, candidates: CandidateSet) -> State:
        """Force the end of the string that repeats itself, and later, or outside of a string, that
        of the call or content. Unchanged if no completion was found."""
        completion = self._static.completion
        matchers = candidates.matchers(candidates.grammars)
        found = [completion.path(matcher, state.scan, each.hints) for each, matcher in matchers]
        path = min((path for path in found if path is not None), key=len, default=None)
        if not path:
            return state
        end = None if state.closing else self._string_end(path, state.scan)
        return replace(state, forced=tuple(path[:end]), closing=True)

    def _string_end(self, path: list[int], scan: Scan) -> int | None:
        """Number of tokens of the path that end the string of the position `scan`."""
        for count, token in enumerate(path if scan.in_string else (), start=1):
            scan = scan.after(self._static.token_bytes[token])
            if not scan.in_string:
                return count
        return None

    def _close_at_budget(self, state: State, candidates: CandidateSet, length: int) -> State:
        """Force the end of the call once no longer completion fits."""
        budget = self._permissions.budget
        if budget.remaining(length) is None:
            return state
        if length < state.next_budget_check:
            return state
        found = budget.closing_tokens(
            candidates,
            state.grammar_tokens,
            state.scan,
            length,
            first=state.calls == 0,
            earlier=state.completion,
        )
        return replace(
            state,
            forced=found.forced,
            completion=found.completion,
            next_budget_check=found.next_check,
            closing=state.closing or bool(found.forced),
        )

    # --- SELECT: another call, or the end ---

    def _begin_select(self, state: State, length: int) -> State:
        """The state after a whole call; `length` includes its last token."""
        calls, end = state.calls + 1, self._static.call_tokens.end
        after = State(Phase.SELECT, reasoning_tokens=state.reasoning_tokens, calls=calls)
        after = replace(after, closing=state.closing)
        permissions = self._permissions
        if state.closing or not permissions.may_add_call(calls, length):
            return self._force(after, end, Phase.END, length)
        grammars = permissions.budget.fitting_grammars(length, first=False)
        call_id = self._call_id(calls)
        return replace(after, candidates=self._static.further_calls(grammars, call_id))

    def _after_content(self, state: State, length: int) -> State:
        """The state after a message of content that calls may follow; `length` includes its last
        token."""
        after = State(Phase.SELECT, reasoning_tokens=state.reasoning_tokens)
        permissions = self._permissions
        begins = permissions.call_required(after) or permissions.may_call_after_content(length)
        if not begins:
            return self._force(after, self._texts.content_last, Phase.END, length)
        grammars = permissions.budget.fitting_grammars(length, first=True)
        may_end = self._may_end_after_content(after)
        calls = self._static.calls_after_content(grammars, self._call_id(0), may_end=may_end)
        return replace(after, candidates=calls)

    def _may_end_after_content(self, state: State) -> bool:
        """Whether the turn may end without a call."""
        return self._texts.preamble_is_content and not self._permissions.call_required(state)

    def _select_mask(self, state: State) -> masks.Mask:
        assert state.candidates is not None
        ends = self._end_tokens(state) if self._may_end(state) else ()
        return masks.also_allow(state.candidates.mask(), ends)

    def _may_end(self, state: State) -> bool:
        """Whether the turn may end here, without text before the end-of-turn token."""
        if state.grammar_tokens:
            return False
        if state.calls:
            return not self._texts.calls_end
        return not self._texts.content_last and self._may_end_after_content(state)

    def _select_step(self, state: State, length: int, token: int) -> State | None:
        candidates = state.candidates
        assert candidates is not None
        if self._may_end(state) and token in self._end_tokens(state):
            return replace(state, ended=True)
        after = self._grammar_step(state, token)
        if after is None:
            return None
        if self._static.ends_calls(candidates):
            return replace(after, phase=Phase.END) if candidates.finished else after
        if self._static.may_end_calls(candidates):
            return after
        return self._end_grammar(replace(after, phase=Phase.TOOL_CALL), length + 1)

    def _end_tokens(self, state: State) -> frozenset[int]:
        """The end-of-turn tokens of the state."""
        if state.closing:
            return self._closed_ends
        return self._call_ends if state.calls else self._content_ends

    @property
    def _closed_ends(self) -> frozenset[int]:
        closed = self._static.marks.closed
        return self._call_ends if closed is None else frozenset({closed})
