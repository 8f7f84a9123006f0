"""The enforcement of one sequence: THINKING → CONTENT → TOOL_CALL → SELECT → END,
or CONTENT → FORMAT → END.

Speaks vLLM's grammar verbs (v1/structured_output/backend_types.py) without importing vLLM:
accept_tokens, validate_tokens, rollback, fill_bitmask, is_terminated, reset. `next_mask` is the
same as `fill_bitmask` in the cheaper forms of masks.py.

Free phases need no grammar: everything may come but the special tokens, and of those exactly the
marks that the phase allows. Inside a call the candidates' grammars decide (union.py), and one
grammar in content that has a form. Text the dialect prescribes is forced token by token. What the
token budget forces or forbids is in budget.py.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Collection, Sequence

from ..errors import BackendError
from ..grammars.compiled_grammar import MeasuredGrammar
from ..grammars.engines.engine import Words
from . import masks
from .budget import Budget
from .candidates import CandidateSet
from .spec import Spec
from .state import Phase, State
from .static_masks import Rules

replace = State._replace

NOTHING = frozenset[int]()
ROLLBACK_WINDOW = 256
"""Tokens that can be undone; drafts are at most a few dozen."""


class Automaton:
    def __init__(
        self,
        rules: Rules,
        spec: Spec,
        grammars: Sequence[MeasuredGrammar],
        content: MeasuredGrammar | None = None,
    ) -> None:
        """Raises BackendError for tokens to go on from that could not have come."""
        self._rules = rules
        self._spec = spec
        self._content = content
        self._own_budget = Budget(rules, spec, grammars)
        # What was accepted was so under the budget of its own time, of which less is left now.
        self._no_budget = Budget(rules, dataclasses.replace(spec, budget=None), grammars)
        self._ends = frozenset(rules.marks.end_of_turn)
        closed = rules.marks.closed
        self._closed = self._ends if closed is None else frozenset({closed})
        special_stops = frozenset(spec.stop_ids) & rules.special
        self._stops = special_stops if spec.ignore_end else self._ends | special_stops
        """The special tokens that end content."""
        self._reach = max((len(word) - 1 for word in spec.bad_words), default=0)
        self.reset()

    @property
    def state(self) -> State:
        return self._state

    def reset(self) -> None:
        self._state = self._initial()
        self._length = 0  # tokens of the answer so far
        self._trail: deque[State] = deque(maxlen=ROLLBACK_WINDOW)
        self._budget = self._no_budget
        if not self.accept_tokens(self._spec.accepted):
            raise BackendError("the tokens to go on from are none that were allowed")
        self._budget = self._own_budget
        self._trail.clear()

    def accept_tokens(self, tokens: Sequence[int]) -> bool:
        """Advance by `tokens`; stops at the first one that may not come and answers False."""
        for token in tokens:
            after = self._step(self._state, token)
            if after is None:
                return False
            self._trail.append(self._state)
            self._length += 1
            self._state = self._held_to_budget(after)
        return True

    def validate_tokens(self, tokens: Sequence[int]) -> list[int]:
        """The longest prefix of `tokens` that may come. Leaves the state as it was."""
        accepted = 0
        for token in tokens:
            if not self.accept_tokens([token]):
                break
            accepted += 1
        self.rollback(accepted)
        return list(tokens[:accepted])

    def rollback(self, count: int) -> None:
        """Undo the last `count` tokens, at most ROLLBACK_WINDOW of them."""
        for _ in range(count):
            before, after = self._trail.pop(), self._state
            if before.union is not None and before.union is after.union:
                before.union.rollback(after.taken - before.taken)
            self._state = before
        self._length -= count

    def is_terminated(self) -> bool:
        return self._state.ended

    def fill_bitmask(self, row: Words) -> None:
        masks.render(self.next_mask(), row, self._rules.vocabulary_size)

    def next_mask(self) -> masks.Mask:
        """What may come next. Raises DeadEnd when nothing may."""
        state, rules = self._state, self._rules
        if state.forced:
            return masks.only(state.forced[0])
        match state.phase:
            case Phase.THINKING if self._must_stop_thinking(state):
                return masks.only(rules.marks.reasoning_end)
            case Phase.THINKING:
                return rules.free(rules.thought_end, state.tail, self._banned(state))
            case Phase.CONTENT if self._owes_call(state):
                return masks.Allow(masks.ids(self._content_marks(state)))
            case Phase.CONTENT if state.union is not None:
                return self._union_mask(state.union, self._content_marks(state))
            case Phase.CONTENT:
                allowed = self._content_marks(state) | self._content_ends()
                return rules.free(allowed, state.tail, self._banned(state))
            case Phase.FORMAT if state.union is not None and not state.union.finished:
                return self._union_mask(state.union, self._ends if state.union.complete else ())
            case Phase.TOOL_CALL if state.union is not None and not state.union.finished:
                return self._union_mask(state.union)
            case Phase.TOOL_CALL:
                return masks.only(rules.marks.call_end)
            case Phase.SELECT if self._may_call(state, len(rules.between_calls) - 1):
                return masks.Allow(masks.ids(self._ends | {rules.between_calls[0]}))
            case Phase.END if state.closing:
                return masks.Allow(masks.ids(self._closed))
            case _:
                return masks.Allow(masks.ids(self._ends))

    # --- transitions: the state after a token, or None where it may not come ----------------------

    def _step(self, state: State, token: int) -> State | None:
        if state.ended:
            return state if token in self._ends | self._closed else None
        if state.forced:
            return self._take_forced(state, token)
        match state.phase:
            case Phase.THINKING if token == self._rules.marks.reasoning_end:
                return self._enter(state, token)
            case Phase.THINKING if self._must_stop_thinking(state):
                return None
            case Phase.THINKING:
                return self._free_text(state, token, state.thought + 1)
            case Phase.CONTENT:
                return self._write(state, token)
            case Phase.FORMAT | Phase.TOOL_CALL:
                return self._fill_in(state, token)
            case Phase.SELECT if token == self._rules.between_calls[0]:
                if not self._may_call(state, len(self._rules.between_calls) - 1):
                    return None
                forced = self._rules.between_calls[1:]
                # A dialect without a separator: the mark itself came.
                return replace(state, forced=forced) if forced else self._enter(state, token)
            case Phase.END if state.closing:
                return replace(state, ended=True) if token in self._closed else None
            case _:
                return replace(state, ended=True) if token in self._ends else None

    def _take_forced(self, state: State, token: int) -> State | None:
        if token != state.forced[0]:
            return None
        state = replace(state, forced=state.forced[1:])
        if state.phase is Phase.TOOL_CALL and state.union is not None:
            return self._fill_in(state, token)
        return self._enter(state, token)

    def _enter(self, state: State, token: int) -> State:
        """After a token that is known to be allowed: the phase that it opens, if it is a mark."""
        marks = self._rules.marks
        if token == marks.reasoning_begin:
            return replace(state, phase=Phase.THINKING, may_think=False, tail=b"", union=None)
        if token == marks.reasoning_end and state.phase is Phase.THINKING:
            content = State(Phase.CONTENT, forced=self._rules.after_reasoning)
            return replace(content, thought=state.thought, union=self._content_union())
        if token == marks.call_begin:
            union = self._rules.union(self._budget.fitting(self._length + 1))
            call = State(Phase.TOOL_CALL, calls=state.calls, union=union)
            return replace(call, thought=state.thought)
        if token == marks.call_end and state.phase is Phase.TOOL_CALL:
            calls = state.calls + 1
            more = not state.closing and self._within_calls(calls)
            phase = Phase.SELECT if more else Phase.END
            return replace(state, phase=phase, calls=calls, union=None)
        return state

    def _write(self, state: State, token: int) -> State | None:
        if token in self._content_marks(state):
            return self._enter(state, token)
        if self._owes_call(state):
            return None
        if state.union is not None:
            return self._fill_in(replace(state, phase=Phase.FORMAT, may_think=False), token)
        if token in self._content_ends():
            return replace(state, phase=Phase.END, ended=True)
        after = self._free_text(state, token, state.thought)
        if after is not None and token in self._spec.stop_ids:
            return replace(after, phase=Phase.END)
        return after

    def _free_text(self, state: State, token: int, thought: int) -> State | None:
        rules = self._rules
        if token in rules.special or token in rules.spelling(state.tail):
            return None
        if token in self._banned(state):
            return None
        recent = (*state.recent, token)[-self._reach :] if self._reach else ()
        tail = rules.tail(state.tail, token)
        same = state.tail == tail and state.recent == recent and state.thought == thought
        if same and not state.may_think:
            return state
        return replace(state, tail=tail, recent=recent, thought=thought, may_think=False)

    def _fill_in(self, state: State, token: int) -> State | None:
        """A token of a call's body, of its end mark, or of content that has a form."""
        assert state.union is not None
        if state.phase is Phase.FORMAT and token in self._ends and state.union.complete:
            return replace(state, phase=Phase.END, ended=True)
        if state.union.finished:
            if state.phase is Phase.FORMAT:
                return None
            return self._enter(state, token) if token == self._rules.marks.call_end else None
        if token in self._rules.special or not state.union.accept(token):
            return None
        if self._spec.close_at_budget:
            state = replace(state, scan=state.scan.after(self._rules.token_bytes[token]))
        return replace(state, taken=state.taken + 1)

    def _held_to_budget(self, state: State) -> State:
        """A call that could not be finished by a longer way any more is closed from here on."""
        if not self._spec.close_at_budget or self._budget.left(self._length) is None:
            return state
        if state.forced:
            return state
        if state.phase is not Phase.TOOL_CALL or state.union is None or state.union.finished:
            return state
        if self._length < state.ask_at:
            return state
        forced, ask_at = self._budget.way_out(state.union, state.taken, state.scan, self._length)
        return replace(state, forced=forced, ask_at=ask_at, closing=bool(forced))

    # --- what a phase allows ----------------------------------------------------------------------

    def _owes_call(self, state: State) -> bool:
        return self._spec.choice == "required" and state.calls == 0

    def _within_calls(self, calls: int) -> bool:
        limit = self._spec.max_calls
        return self._spec.choice != "none" and (limit is None or calls < limit)

    def _may_call(self, state: State, beside: int = 0) -> bool:
        """One that could not be finished is not begun."""
        return self._within_calls(state.calls) and self._budget.fits_call(self._length, beside)

    def _must_stop_thinking(self, state: State) -> bool:
        owed = self._owes_call(state)
        return self._budget.closes_reasoning(self._length, state.thought, owed=owed)

    def _content_marks(self, state: State) -> frozenset[int]:
        owed = self._owes_call(state)
        thinks = state.may_think and (not owed or self._budget.fits_reasoning(self._length))
        return self._rules.content_marks(thinks, owed or self._may_call(state))

    def _content_ends(self) -> frozenset[int]:
        return NOTHING if self._length < self._spec.min_tokens else self._stops

    def _banned(self, state: State) -> frozenset[int]:
        """Tokens that would complete a sequence that may not come."""
        if not self._spec.bad_words:
            return NOTHING
        return frozenset(
            word[-1]
            for word in self._spec.bad_words
            if len(word) == 1 or state.recent[1 - len(word) :] == word[:-1]
        )

    def _union_mask(self, union: CandidateSet, beside: Collection[int] = ()) -> masks.Mask:
        """`beside`: marks that may come instead."""
        return masks.beside(union.mask(), beside) if beside else union.mask()

    def _content_union(self) -> CandidateSet | None:
        return self._rules.union([self._content]) if self._content is not None else None

    def _initial(self) -> State:
        marks, spec = self._rules.marks, self._spec
        match spec.reasoning:
            case "open" if spec.skip_reasoning and marks.reasoning_end is not None:
                return State(Phase.THINKING, forced=(marks.reasoning_end,))
            case "open":
                return State(Phase.THINKING)
            case "must" if marks.reasoning_begin is not None:
                return State(Phase.CONTENT, forced=(marks.reasoning_begin,))
            case _:
                union = self._content_union()
                return State(Phase.CONTENT, may_think=spec.reasoning == "may", union=union)
