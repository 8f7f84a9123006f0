"""What a phase of a turn is, and what phases use: the permissions of the request, and free text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

from ...grammars.compiled_grammar import MeasuredGrammar
from ...tokens.masks import BitmaskRow
from ..budget import Budget
from ..dialect_texts import FreeEnd
from ..model_data import ModelData
from ..spec import Spec
from ..state import Phase, Remaining, State


class Transitions(Protocol):
    """How a phase hands over to another one (turn.py)."""

    def begin(self, state: State, phase: Phase, remaining: Remaining) -> State:
        """Return the state at the beginning of `phase`, which follows `state`."""
        ...

    def force(
        self, state: State, tokens: tuple[int, ...], then: Phase, remaining: Remaining
    ) -> State:
        """`state` with `tokens` to come, and then the phase `then`."""
        ...

    def begin_call(self, remaining: Remaining, written: bytes) -> State:
        """Return the state in the first call, of which `written` has been written."""
        ...

    def after_call_token(self, state: State, remaining: Remaining) -> State:
        """Return the state after a token of a call, at whose end something else begins."""
        ...


@dataclass(frozen=True)
class TurnRules:
    """What the phases of one turn have in common."""

    model: ModelData
    spec: Spec
    permissions: Permissions
    content: MeasuredGrammar | None
    turn: Transitions

    def call_id(self, index: int) -> str:
        return self.model.call_ids.call_id(self.spec, index)

    def candidates_step(self, state: State, token: int) -> State | None:
        """Return the state after a token of one of its candidates."""
        assert state.candidates is not None
        after = state.candidates.after(token)
        return None if after is None else state._replace(candidates=after)


NOTHING = frozenset[int]()


class Permissions:
    """What a request permits in a given state."""

    def __init__(self, model: ModelData, spec: Spec, budget: Budget) -> None:
        self._model = model
        self._spec = spec
        self.budget = budget
        special_stops = frozenset(spec.stop_ids) & model.special
        ends = NOTHING if spec.ignore_end else model.vocabulary.content_ends
        self._content_ends = ends | special_stops

    def call_required(self, state: State) -> bool:
        """Whether a call is required and has not been made yet."""
        return self._spec.choice == "required" and state.calls == 0

    def within_call_limit(self, calls: int) -> bool:
        """Whether another call is allowed after `calls` calls."""
        limit = self._spec.max_calls if self._model.form.calls.parallel else 1
        return self._spec.choice != "none" and (limit is None or calls < limit)

    def may_begin_call(self, state: State, remaining: Remaining) -> bool:
        """Whether the first call may begin. A call that does not fit the budget may not."""
        return self.within_call_limit(state.calls) and self.budget.fits_call(remaining)

    def may_call_after_content(self, remaining: Remaining) -> bool:
        """Whether the first call may follow a message of content."""
        return self.within_call_limit(0) and self.budget.fits_call_after_content(remaining)

    def may_trigger(self, state: State) -> bool:
        """Return whether the text that begins the calls is looked for here. Elsewhere it is
        content."""
        return state.at_start or not self._model.form.calls.only_at_start

    def may_add_call(self, calls: int, remaining: Remaining) -> bool:
        """Whether another call may follow after `calls` calls."""
        return self.within_call_limit(calls) and self.budget.fits_further_call(remaining)

    def must_end_reasoning(self, state: State, remaining: Remaining) -> bool:
        return self.budget.must_end_reasoning(remaining, call_required=self.call_required(state))

    def content_marks(self, state: State, remaining: Remaining) -> frozenset[int]:
        """Return the marks that may come in content: those that begin reasoning or calls."""
        required = self.call_required(state)
        may_reason = state.may_reason and (not required or self.budget.fits_reasoning(remaining))
        may_call = required or self.may_begin_call(state, remaining)
        texts = self._model.texts
        marks = (
            texts.reasoning_mark if may_reason else None,
            texts.trigger_mark if may_call else None,
        )
        return frozenset(mark for mark in marks if mark is not None)

    def content_ends(self, remaining: Remaining) -> frozenset[int]:
        """Return the special tokens that may end the content; none while it is too short."""
        return NOTHING if remaining.early else self._content_ends

    def banned_tokens(self, state: State) -> frozenset[int]:
        """Return the tokens that would complete a banned sequence (`bad_words`)."""
        if not self._spec.bad_words:
            return NOTHING
        return frozenset(
            word[-1]
            for word in self._spec.bad_words
            if len(word) == 1 or state.recent_tokens[1 - len(word) :] == word[:-1]
        )


class PhaseRules(ABC):
    """The rules of one phase. They are functions of the state and the remaining."""

    def __init__(self, rules: TurnRules) -> None:
        self._rules = rules
        self._permissions = rules.permissions
        self._model = rules.model
        self._texts = rules.model.texts

    @abstractmethod
    def mask(self, state: State, remaining: Remaining) -> BitmaskRow:
        """Return the tokens allowed next. Raise NoTokenAllowed if there are none."""

    @abstractmethod
    def step(self, state: State, remaining: Remaining, token: int) -> State | None:
        """Return the state after `token`, before which `remaining` is left; None if not allowed."""


class FreeText:
    def __init__(self, rules: TurnRules) -> None:
        self._model = rules.model
        self._permissions = rules.permissions
        self._spelled_mark = rules.model.texts.spelled_mark
        self._history = max((len(word) - 1 for word in rules.spec.bad_words), default=0)
        """Number of tokens that the longest banned sequence has before its last one."""

    def step(self, state: State, token: int) -> State | None:
        """Return the state after a token of text; None if it is no text, or may not come."""
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

    def mask_until(self, state: State, end: FreeEnd, *, early: bool = False) -> BitmaskRow:
        """Return the mask of text up to `end`; without the end if it is too `early`."""
        ending, beyond = end.ending(state.partial_trigger)
        marks = NOTHING if early else ending & self._model.special
        banned = self._permissions.banned_tokens(state) | beyond
        return self._model.free_text_mask(marks, state.partial_mark, banned)

    def step_until(self, state: State, end: FreeEnd, token: int) -> State | None:
        """As `step`, in text up to `end`, to which the token does not come."""
        if end.overshoots(state.partial_trigger, token):
            return None
        after = self.step(state, token)
        partial = end.partial(state.partial_trigger, token)
        return None if after is None else after._replace(partial_trigger=partial)
