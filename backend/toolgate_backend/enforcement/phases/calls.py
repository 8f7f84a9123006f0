"""The phases in which candidates decide, TOOL_CALL, SELECT and FORMAT, and the end of the turn."""

from __future__ import annotations

from ...tokens.masks import BitmaskRow
from ..state import Phase, Remaining, State
from .phase import NOTHING, PhaseRules, TurnRules


class Calls(PhaseRules):
    """TOOL_CALL: a call of one of the tools."""

    def begin(self, remaining: Remaining, written: bytes) -> State:
        """Return the state in the first call, of which `written` has been written."""
        grammars = self._rules.permissions.budget.fitting_grammars(remaining, first=True)
        calls = self._model.first_calls(grammars, self._rules.call_id(0))
        return State(Phase.TOOL_CALL, candidates=calls.begun(written))

    def mask(self, state: State, _: Remaining) -> BitmaskRow:
        assert state.candidates is not None
        return state.candidates.mask()

    def step(self, state: State, remaining: Remaining, token: int) -> State | None:
        after = self._rules.candidates_step(state, token)
        return None if after is None else self.after_token(after, remaining.less(1))

    def after_token(self, state: State, remaining: Remaining) -> State:
        """Return the state after a token of a call. At the end of the grammar, the rest of the
        call's text is forced."""
        candidates = state.candidates
        assert candidates is not None
        if not candidates.finished:
            return state
        name = candidates.grammars[0].name
        tail = self._model.vocabulary.call_tokens.tail(name, self._rules.call_id(state.calls))
        whole = state._replace(candidates=None)
        return self._rules.turn.force(whole, tail, Phase.SELECT, remaining)


class Select(PhaseRules):
    """SELECT: what may follow a call, or a message of content that calls may follow."""

    def begin_after_call(self, state: State, remaining: Remaining) -> State:
        """Return the state after a whole call."""
        calls, end = state.calls + 1, self._model.vocabulary.call_tokens.end
        after = State(Phase.SELECT, calls=calls)
        permissions = self._permissions
        if not permissions.may_add_call(calls, remaining):
            return self._rules.turn.force(after, end, Phase.END, remaining)
        grammars = permissions.budget.fitting_grammars(remaining, first=False)
        further = self._model.candidates(
            self._model.form.separator,
            grammars,
            self._rules.call_id(calls),
            end=self._texts.calls_end,
        )
        return after._replace(candidates=further.begun())

    def begin_after_content(self, remaining: Remaining) -> State:
        """Return the state after a message of content that calls may follow."""
        after = State(Phase.SELECT)
        permissions = self._permissions
        if not (permissions.call_required(after) or permissions.may_call_after_content(remaining)):
            return self._rules.turn.force(after, self._texts.content_last, Phase.END, remaining)
        grammars = permissions.budget.fitting_grammars(remaining, first=True)
        end = self._texts.content_last_units if self._may_end_after_content(after) else b""
        calls = self._model.candidates(
            self._model.form.begin, grammars, self._rules.call_id(0), end=end
        )
        return after._replace(candidates=calls.begun())

    def mask(self, state: State, _: Remaining) -> BitmaskRow:
        assert state.candidates is not None
        return state.candidates.mask() | self._model.allowing(self._ends(state))

    def step(self, state: State, remaining: Remaining, token: int) -> State | None:
        if token in self._ends(state):
            return state._replace(ended=True)
        after = self._rules.candidates_step(state, token)
        if after is None:
            return None
        assert after.candidates is not None
        grammars, end = after.candidates.grammars, self._model.end_of_calls
        if grammars == [end]:
            return after._replace(phase=Phase.END) if after.candidates.finished else after
        if end in grammars:
            return after
        return self._rules.turn.after_call_token(
            after._replace(phase=Phase.TOOL_CALL), remaining.less(1)
        )

    def end_tokens(self, state: State) -> frozenset[int]:
        """Return the tokens that end the turn in a state that may end it."""
        if state.cut:
            return self._model.cut_ends
        vocabulary = self._model.vocabulary
        return vocabulary.call_ends if state.calls else vocabulary.content_ends

    def _ends(self, state: State) -> frozenset[int]:
        """Return the tokens that end the turn here; none if there must be a text before them."""
        assert state.candidates is not None
        if state.candidates.touched:
            return NOTHING
        if state.calls:
            may_end = not self._texts.calls_end
        else:
            may_end = not self._texts.content_last and self._may_end_after_content(state)
        return self.end_tokens(state) if may_end else NOTHING

    def _may_end_after_content(self, state: State) -> bool:
        """Whether the turn may end without a call."""
        return self._texts.preamble_is_content and not self._permissions.call_required(state)


class End(PhaseRules):
    """END: nothing but the token that ends the turn."""

    def __init__(self, rules: TurnRules, select: Select) -> None:
        super().__init__(rules)
        self._select = select

    def mask(self, state: State, _: Remaining) -> BitmaskRow:
        return self._model.allowing(self._select.end_tokens(state))

    def step(self, state: State, _: Remaining, token: int) -> State | None:
        if state.ended:
            ends = frozenset(self._model.vocabulary.marks.end_of_turn) | self._model.cut_ends
            return state if token in ends else None
        return state._replace(ended=True) if token in self._select.end_tokens(state) else None


class Format(PhaseRules):
    """FORMAT: content that is constrained by a schema."""

    def mask(self, state: State, _: Remaining) -> BitmaskRow:
        candidates = state.candidates
        assert candidates is not None
        ends = self._ends
        if candidates.finished:
            return self._model.allowing(ends)
        return candidates.mask() | self._model.allowing(ends if candidates.complete else ())

    def step(self, state: State, remaining: Remaining, token: int) -> State | None:
        candidates = state.candidates
        assert candidates is not None
        if token in self._ends and candidates.complete:
            content_end = self._texts.content_end
            if content_end is None:
                return state._replace(phase=Phase.END, ended=True)
            rest = (*content_end.tokens[1:], *self._texts.content_last)
            return self._rules.turn.force(state, rest, Phase.END, remaining.less(1))
        return None if candidates.finished else self._rules.candidates_step(state, token)

    @property
    def _ends(self) -> frozenset[int]:
        """The tokens that end the content where it is complete."""
        end = self._texts.content_end
        return self._model.vocabulary.content_ends if end is None else frozenset({end.tokens[0]})
