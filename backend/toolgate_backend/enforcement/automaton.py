"""The enforcement of one sequence: THINKING → CONTENT → TOOL_CALL → SELECT → END.

Speaks vLLM's grammar verbs (v1/structured_output/backend_types.py) without importing vLLM:
accept_tokens, validate_tokens, rollback, fill_bitmask, is_terminated, reset. `next_mask` is the
same as `fill_bitmask` in the cheaper forms of masks.py.

Free phases need no grammar: everything may come but the special tokens, and of those exactly the
marks that the phase allows. Inside a call the candidates' grammars decide (union.py). Text the
dialect prescribes is forced token by token.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from ..errors import BackendError
from ..grammars.engine import CompiledGrammar, Words
from . import masks
from .rules import Rules
from .spec import Spec
from .union import Union

ROLLBACK_WINDOW = 256
"""Tokens that can be undone; drafts are at most a few dozen."""


class Phase(Enum):
    THINKING = auto()
    CONTENT = auto()
    TOOL_CALL = auto()
    SELECT = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class State:
    phase: Phase
    forced: tuple[int, ...] = ()
    """Tokens that must come next, in this order, before the phase goes on."""
    may_think: bool = False
    tail: bytes = b""
    """The last bytes of a free phase's text, as far as a spelt-out mark can reach."""
    length: int = 0
    calls: int = 0
    union: Union | None = None
    ended: bool = False


class Automaton:
    def __init__(self, rules: Rules, spec: Spec, grammars: Sequence[CompiledGrammar]) -> None:
        """Raises BackendError for tokens to go on from that could not have come."""
        self._rules = rules
        self._spec = spec
        self._grammars = grammars
        self._ends = frozenset(rules.marks.end_of_turn)
        self.reset()

    @property
    def state(self) -> State:
        return self._state

    def reset(self) -> None:
        self._state = self._initial()
        self._trail: deque[State] = deque(maxlen=ROLLBACK_WINDOW)
        if not self.accept_tokens(self._spec.accepted):
            raise BackendError("the tokens to go on from are none that were allowed")
        self._trail.clear()

    def accept_tokens(self, tokens: Sequence[int]) -> bool:
        """Advance by `tokens`; stops at the first one that may not come and answers False."""
        for token in tokens:
            after = self._step(token)
            if after is None:
                return False
            self._trail.append(self._state)
            self._state = after
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
            before = self._trail.pop()
            in_body = before.phase is Phase.TOOL_CALL and self._state.phase is Phase.TOOL_CALL
            if in_body and before.union is self._state.union and before.union is not None:
                before.union.rollback(1)
            self._state = before

    def is_terminated(self) -> bool:
        return self._state.ended

    def fill_bitmask(self, row: Words) -> None:
        masks.render(self.next_mask(), row, self._rules.vocabulary_size)

    def next_mask(self) -> masks.Mask:
        """What may come next. Raises DeadEnd when nothing may."""
        state, rules = self._state, self._rules
        if state.forced:
            return masks.Allow(masks.ids(state.forced[:1]))
        match state.phase:
            case Phase.THINKING:
                return rules.free("thinking", {rules.marks.reasoning_end}, state.tail)
            case Phase.CONTENT if self._owes_call:
                return masks.Allow(masks.ids(self._content_marks()))
            case Phase.CONTENT:
                allowed = self._content_marks() | self._content_ends()
                return rules.free("content", allowed, state.tail)
            case Phase.TOOL_CALL:
                return self._call_mask()
            case Phase.SELECT:
                return masks.Allow(masks.ids(self._ends | {rules.between_calls[0]}))
            case Phase.END:
                return masks.Allow(masks.ids(self._ends))

    # --- transitions: the state after a token, or None where it may not come ----------------------

    def _step(self, token: int) -> State | None:
        state = self._state
        if state.ended:
            return state if token in self._ends else None
        if state.forced:
            if token != state.forced[0]:
                return None
            state = replace(state, forced=state.forced[1:], length=state.length + 1)
            return self._enter(state, token)
        match state.phase:
            case Phase.THINKING:
                return self._think(state, token)
            case Phase.CONTENT:
                return self._write(state, token)
            case Phase.TOOL_CALL:
                return self._call(state, token)
            case Phase.SELECT if token == self._rules.between_calls[0]:
                return replace(state, forced=self._rules.between_calls[1:])
            case _:
                return replace(state, ended=True) if token in self._ends else None

    def _enter(self, state: State, token: int) -> State:
        """After a token that is known to be allowed: the phase that it opens, if it is a mark."""
        marks = self._rules.marks
        if token == marks.reasoning_begin:
            return replace(state, phase=Phase.THINKING, may_think=False, tail=b"")
        if token == marks.reasoning_end and state.phase is Phase.THINKING:
            forced = self._rules.after_reasoning
            return replace(state, phase=Phase.CONTENT, forced=forced, may_think=False, tail=b"")
        if token == marks.call_begin:
            union = self._rules.union(self._grammars)
            return replace(state, phase=Phase.TOOL_CALL, may_think=False, union=union)
        if token == marks.call_end and state.phase is Phase.TOOL_CALL:
            more = self._may_call(state.calls + 1)
            phase = Phase.SELECT if more else Phase.END
            return replace(state, phase=phase, calls=state.calls + 1, union=None)
        return state

    def _think(self, state: State, token: int) -> State | None:
        if token == self._rules.marks.reasoning_end:
            return self._enter(replace(state, length=state.length + 1), token)
        return self._free_text(state, token)

    def _write(self, state: State, token: int) -> State | None:
        if token in self._content_marks():
            return self._enter(replace(state, length=state.length + 1), token)
        if self._owes_call:
            return None
        if token in self._ends:
            return replace(state, phase=Phase.END, ended=True) if self._content_ends() else None
        return self._free_text(state, token)

    def _free_text(self, state: State, token: int) -> State | None:
        if token in self._rules.special or token in self._rules.spelling(state.tail):
            return None
        tail = self._rules.tail(state.tail, token)
        return replace(state, tail=tail, may_think=False, length=state.length + 1)

    def _call(self, state: State, token: int) -> State | None:
        assert state.union is not None
        if state.union.finished:
            if token != self._rules.marks.call_end:
                return None
            return self._enter(replace(state, length=state.length + 1), token)
        if token in self._rules.special or not state.union.accept(token):
            return None
        return replace(state, length=state.length + 1)

    # --- what a phase allows ----------------------------------------------------------------------

    @property
    def _owes_call(self) -> bool:
        return self._spec.choice == "required" and self._state.calls == 0

    def _may_call(self, calls: int) -> bool:
        limit = self._spec.max_calls
        return self._spec.choice != "none" and (limit is None or calls < limit)

    def _content_marks(self) -> set[int]:
        marks = self._rules.marks
        thinking = {marks.reasoning_begin} if self._state.may_think else set()
        calling = {marks.call_begin} if self._may_call(self._state.calls) else set()
        return {mark for mark in thinking | calling if mark is not None}

    def _content_ends(self) -> frozenset[int]:
        return self._ends if self._state.length >= self._spec.min_tokens else frozenset()

    def _call_mask(self) -> masks.Mask:
        union = self._state.union
        assert union is not None
        if union.finished:
            return masks.Allow(masks.ids([self._rules.marks.call_end]))
        return union.mask()

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
                return State(Phase.CONTENT, may_think=spec.reasoning == "may")
