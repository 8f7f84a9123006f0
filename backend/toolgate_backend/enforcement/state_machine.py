"""The enforcement state machine of one sequence.

    THINKING ─▶ CONTENT ─▶ TOOL_CALL ─▶ SELECT ─▶ END
                   │            ▲          │
                   │            └──────────┘  another call
                   └─▶ FORMAT ─▶ END          content that is constrained by a schema

Each phase has two methods, in the order of the phases: `_PHASE_mask` returns the tokens allowed
next, `_PHASE_step` returns the state after a token, or None if the token is not allowed.

The free phases THINKING and CONTENT need no grammar. They allow all ordinary tokens and, of the
special tokens, only the marks of the phase. The candidates (candidates.py) decide inside TOOL_CALL,
SELECT and FORMAT. Other text that the dialect prescribes is forced token by token. permissions.py
and budget.py contain the limits on calls and tokens.
"""

from __future__ import annotations

from toolgate_core import grammar_key

from ..grammars.compiled_grammar import MeasuredGrammar
from ..tokens import masks
from .candidates import CandidateSet
from .permissions import NOTHING, Permissions
from .spec import Spec
from .state import Phase, State
from .static_masks import StaticMasks
from .text_match import TextMatch

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
        self._content_ends = static.content_ends
        self._call_ends = static.call_ends
        self._all_ends = frozenset(static.marks.end_of_turn)
        closed = static.marks.closed
        self._closed_ends = self._call_ends if closed is None else frozenset({closed})
        self._longest_history = max((len(word) - 1 for word in spec.bad_words), default=0)

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
            case _:
                state = State(Phase.CONTENT, may_reason=spec.reasoning == "may")
                return replace(state, candidates=self._content_candidates(0))

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
                return self._end_mask(state)

    def step(self, state: State, length: int, token: int) -> State | None:
        """The state after `token`; None if the token is not allowed."""
        if state.ended:
            return state if token in self._all_ends | self._closed_ends else None
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
                return self._call_step(state, length, token)
            case Phase.SELECT:
                return self._select_step(state, length, token)
            case Phase.END:
                return self._end_step(state, token)

    # --- forced tokens, in any phase ---

    def _force(self, state: State, tokens: tuple[int, ...], then: Phase, length: int) -> State:
        """`state` with `tokens` to come, and then the phase `then`."""
        if not tokens:
            return self._begin(state, then, length)
        return replace(state, forced=tokens, after_forced=then)

    def _forced_step(self, state: State, length: int, token: int) -> State | None:
        if token != state.forced[0]:
            return None
        rest, then = state.forced[1:], state.after_forced
        state = replace(state, forced=rest)
        if then is None:  # the shortest completion of a call
            return self._call_step(state, length, token)
        return state if rest else self._begin(replace(state, after_forced=None), then, length + 1)

    def _begin(self, state: State, phase: Phase, length: int) -> State:
        if phase is Phase.THINKING:
            return self._begin_thinking(state)
        if phase is Phase.CONTENT and state.phase is Phase.THINKING:
            return self._begin_content(state, length)
        if phase is Phase.SELECT:
            return self._begin_select(state, length)
        return replace(state, phase=phase)

    # --- THINKING ---

    def _begin_thinking(self, state: State) -> State:
        return State(Phase.THINKING, reasoning_tokens=state.reasoning_tokens)

    def _thinking_mask(self, state: State, length: int) -> masks.Mask:
        static = self._static
        if self._permissions.must_end_reasoning(state, length):
            return masks.single(static.call_tokens.reasoning_end[0])
        banned = self._permissions.banned_tokens(state)
        if static.texts.reasoning_end is not None:
            banned |= self._overshooting_reasoning_end(state)
        return static.free_text_mask(static.reasoning_end_marks, state.partial_mark, banned)

    def _overshooting_reasoning_end(self, state: State) -> frozenset[int]:
        """The tokens that complete the text that ends the reasoning, and continue after it."""
        match = self._static.texts.reasoning_end
        assert match is not None
        completing = match.containing | match.completing(state.partial_trigger)
        units = self._static.unit_bytes
        return frozenset(t for t in completing if match.completed(state.partial_trigger, units[t]))

    def _thinking_step(self, state: State, length: int, token: int) -> State | None:
        static = self._static
        if token in static.reasoning_end_marks:
            return self._begin_content(state, length + 1)
        if self._permissions.must_end_reasoning(state, length):
            first, *rest = static.call_tokens.reasoning_end
            forced = tuple(rest)
            return self._force(state, forced, Phase.CONTENT, length + 1) if token == first else None
        match = static.texts.reasoning_end
        if match is not None and token not in static.special:
            surplus = match.completed(state.partial_trigger, static.unit_bytes[token])
            if surplus is not None:
                return None if surplus else self._begin_content(state, length + 1)
        after = self._free_text_step(state, token, state.reasoning_tokens + 1)
        return after and self._track(after, match, state, token)

    def _track(self, after: State, match: TextMatch | None, before: State, token: int) -> State:
        """`after`, with the beginning of the text of `match` at its end."""
        partial = self._static.partial(match, before.partial_trigger, token)
        if partial == after.partial_trigger:
            return after
        return replace(after, partial_trigger=partial)

    def _free_text_step(self, state: State, token: int, reasoning_tokens: int) -> State | None:
        static, count = self._static, self._longest_history
        if token in static.special or static.completes_mark(state.partial_mark, token):
            return None
        if token in self._permissions.banned_tokens(state):
            return None
        recent = (*state.recent_tokens, token)[-count:] if count else ()
        partial = static.partial(static.texts.spelled_mark, state.partial_mark, token)
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

    def _begin_content(self, state: State, length: int) -> State:
        forced = self._static.call_tokens.after_reasoning
        content = State(
            Phase.CONTENT,
            reasoning_tokens=state.reasoning_tokens,
            candidates=self._content_candidates(length + len(forced)),
        )
        return self._force(content, forced, Phase.CONTENT, length)

    def _content_candidates(self, length: int) -> CandidateSet | None:
        """The texts with which the content may begin; None if it is free text."""
        static, permissions, content = self._static, self._permissions, self._content
        required = self._spec.choice == "required"
        if static.texts.has_text_trigger and (required or content):
            # A mark that begins the calls is allowed in addition, but a text is a candidate.
            calls = required or permissions.may_begin_call(State(Phase.CONTENT), length)
            grammars = permissions.budget.fitting_grammars(length, first=True) if calls else ()
            call_id = self._call_id(0)
            return static.content_or_calls(None if required else content, grammars, call_id)
        return static.content_or_calls(content, (), "") if content is not None else None

    def _content_mask(self, state: State, length: int) -> masks.Mask:
        permissions, static = self._permissions, self._static
        marks = permissions.content_marks(state, length)
        if state.candidates is not None:
            return masks.also_allow(state.candidates.mask(), marks)
        if permissions.call_required(state):
            return masks.Allow(masks.token_ids(marks))
        allowed = marks | permissions.content_ends(length)
        banned = permissions.banned_tokens(state)
        if static.texts.has_text_trigger:
            calling, not_calling = self._triggers(state, length)
            allowed |= calling & static.special
            banned |= not_calling
        return static.free_text_mask(allowed, state.partial_mark, banned)

    def _triggers(self, state: State, length: int) -> tuple[frozenset[int], frozenset[int]]:
        """The tokens that complete the text that begins the calls: those that are allowed, and the
        others. A token may extend into the call's text."""
        match = self._static.texts.trigger
        if match is None or not self._permissions.may_trigger(state):
            return NOTHING, NOTHING
        completing = match.containing | match.completing(state.partial_trigger)
        allowed = frozenset(t for t in completing if self._first_call(state, length, t) is not None)
        return allowed, completing - allowed

    def _first_call(self, state: State, length: int, token: int) -> State | None:
        """The state after a token that completes the text that begins the calls; None if the call
        may not begin, or not with the rest of the token."""
        match = self._static.texts.trigger
        assert match is not None
        surplus = match.completed(state.partial_trigger, self._static.unit_bytes[token])
        assert surplus is not None
        if not self._permissions.may_begin_call(state, length):
            return None
        written, call_id = match.text + surplus, self._call_id(0)
        grammars = self._permissions.budget.fitting_grammars(length, first=True)
        if surplus and not self._static.may_continue(grammars, call_id, written):
            return None
        return self._begin_call(state, length, written)

    def _content_step(self, state: State, length: int, token: int) -> State | None:
        permissions, static = self._permissions, self._static
        if token in permissions.content_marks(state, length):
            if token == static.texts.trigger_mark:
                assert static.texts.trigger is not None
                return self._begin_call(state, length, static.texts.trigger.text)
            return self._begin_thinking(state)
        if state.candidates is not None:
            return self._candidates_step(replace(state, may_reason=False), length, token)
        if permissions.call_required(state):
            return None
        if token in permissions.content_ends(length):
            return replace(state, phase=Phase.END, ended=True)
        match = static.texts.trigger if static.texts.has_text_trigger else None
        if match is not None and permissions.may_trigger(state):
            surplus = match.completed(state.partial_trigger, static.unit_bytes[token])
            if surplus is not None:
                return self._first_call(state, length, token)
        after = self._free_text_step(state, token, state.reasoning_tokens)
        if after is not None and token in self._spec.stop_ids:
            return replace(after, phase=Phase.END)
        if after is not None and match is not None:
            after = self._track(after, match, state, token)
            written = len(state.partial_trigger) + len(static.unit_bytes[token])
            if state.at_start and len(after.partial_trigger) < written:
                return replace(after, at_start=False)
        return after

    def _candidates_step(self, state: State, length: int, token: int) -> State | None:
        """The step in constrained content, or in a call that a text begins."""
        after = self._grammar_step(state, token)
        if after is None:
            return None
        assert after.candidates is not None
        names = {grammar.name for grammar in after.candidates.grammars}
        if names == {grammar_key.CONTENT}:
            return replace(after, phase=Phase.FORMAT)
        if grammar_key.CONTENT in names:
            return after
        return self._end_grammar(replace(after, phase=Phase.TOOL_CALL), length + 1)

    # --- FORMAT ---

    def _format_mask(self, state: State) -> masks.Mask:
        candidates = state.candidates
        assert candidates is not None
        if candidates.finished:
            return masks.Allow(masks.token_ids(self._content_ends))
        ends = self._content_ends if candidates.complete else ()
        return masks.also_allow(candidates.mask(), ends)

    def _format_step(self, state: State, token: int) -> State | None:
        candidates = state.candidates
        assert candidates is not None
        if token in self._content_ends and candidates.complete:
            return replace(state, phase=Phase.END, ended=True)
        return None if candidates.finished else self._grammar_step(state, token)

    # --- TOOL_CALL ---

    def _call_id(self, index: int) -> str:
        return self._static.call_ids.call_id(self._spec, index)

    def _begin_call(self, state: State, length: int, written: bytes) -> State:
        """The state in the first call, of which `written` has been written."""
        grammars = self._permissions.budget.fitting_grammars(length, first=True)
        return State(
            Phase.TOOL_CALL,
            reasoning_tokens=state.reasoning_tokens,
            candidates=self._static.first_calls(grammars, self._call_id(0), written),
        )

    def _call_mask(self, state: State) -> masks.Mask:
        assert state.candidates is not None
        return state.candidates.mask()

    def _call_step(self, state: State, length: int, token: int) -> State | None:
        after = self._grammar_step(state, token)
        return after and self._end_grammar(after, length + 1)

    def _grammar_step(self, state: State, token: int) -> State | None:
        assert state.candidates is not None
        if not state.candidates.accept(token):
            return None
        if self._spec.close_at_budget:
            state = replace(state, scan=state.scan.after(self._static.token_bytes[token]))
        return replace(state, grammar_tokens=state.grammar_tokens + 1)

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
        """With `close_at_budget`: force the end of the call once no longer completion fits."""
        budget, candidates = self._permissions.budget, state.candidates
        if not self._spec.close_at_budget or budget.remaining(length) is None:
            return state
        if state.phase is not Phase.TOOL_CALL or candidates is None or candidates.finished:
            return state
        if state.forced or length < state.next_budget_check:
            return state
        forced, next_check = budget.closing_tokens(
            candidates, state.grammar_tokens, state.scan, length, first=state.calls == 0
        )
        return replace(state, forced=forced, next_budget_check=next_check, closing=bool(forced))

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

    def _select_mask(self, state: State) -> masks.Mask:
        assert state.candidates is not None
        allowed = state.candidates.mask()
        return masks.also_allow(allowed, self._call_ends if self._may_end(state) else ())

    def _may_end(self, state: State) -> bool:
        """Whether the turn may end directly after a call."""
        return not state.grammar_tokens and not self._static.texts.calls_end

    def _select_step(self, state: State, length: int, token: int) -> State | None:
        candidates = state.candidates
        assert candidates is not None
        if (
            not state.grammar_tokens
            and not self._static.texts.calls_end
            and token in self._call_ends
        ):
            return replace(state, ended=True)
        after = self._grammar_step(state, token)
        if after is None:
            return None
        if self._static.ends_calls(candidates):
            return replace(after, phase=Phase.END) if candidates.finished else after
        if self._static.may_end_calls(candidates):
            return after
        return self._end_grammar(replace(after, phase=Phase.TOOL_CALL), length + 1)

    # --- END ---

    def _end_tokens(self, state: State) -> frozenset[int]:
        if state.closing:
            return self._closed_ends
        return self._call_ends if state.calls else self._content_ends

    def _end_mask(self, state: State) -> masks.Mask:
        return masks.Allow(masks.token_ids(self._end_tokens(state)))

    def _end_step(self, state: State, token: int) -> State | None:
        return replace(state, ended=True) if token in self._end_tokens(state) else None
