"""The rules of a turn: what equal requests share.

    THINKING ─▶ CONTENT ─▶ TOOL_CALL ─▶ SELECT ─▶ END
                   │            ▲          │
                   │            └──────────┘  another call
                   └─▶ FORMAT ─▶ END          content that is constrained by a schema

Each phase has its rules in phases/: the tokens allowed next, and the state after a token. Both are
functions of the state and of what remains of the sequence's budgets (`Remaining`).

The free phases THINKING and CONTENT need no grammar. They allow all ordinary tokens and, of the
special tokens, only the marks of the phase. The candidates (candidates.py) decide inside TOOL_CALL,
SELECT and FORMAT. Other text that the dialect prescribes is forced token by token.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from ..grammars.compiled_grammar import MeasuredGrammar
from ..tokens.masks import BitmaskRow
from .budget import Budget
from .model_data import ModelData
from .phases.calls import Calls, End, Format, Select
from .phases.content import Content, Thinking
from .phases.messages import Messages
from .phases.phase import FreeText, Permissions, PhaseRules, TurnRules
from .spec import Spec
from .state import Phase, Remaining, State


class Turn:
    def __init__(
        self,
        model: ModelData,
        spec: Spec,
        grammars: Sequence[MeasuredGrammar],
        content: MeasuredGrammar | None,
    ) -> None:
        """`grammars` are those of the tools that may be called. The limits on tokens in `spec` are
        not used: they are in each `Remaining`."""
        self.budget = Budget(model, grammars)
        self._model = model
        self._spec = spec
        # A cycle of references would keep the grammars until Python looks for cycles.
        turn: Turn = weakref.proxy(self)
        self._rules = TurnRules(model, spec, Permissions(model, spec, self.budget), content, turn)
        text = FreeText(self._rules)
        self._calls = Calls(self._rules)
        self._select = Select(self._rules)
        self._messages = Messages(self._rules, text) if model.texts.has_messages else None
        self._content = self._messages or Content(self._rules, text)
        self._phases: dict[Phase, PhaseRules] = {
            Phase.THINKING: Thinking(self._rules, text),
            Phase.CONTENT: self._content,
            Phase.FORMAT: Format(self._rules),
            Phase.TOOL_CALL: self._calls,
            Phase.SELECT: self._select,
            Phase.END: End(self._rules, self._select),
        }

    def initial_state(self, remaining: Remaining) -> State:
        """Return the state before the first token of the response."""
        spec, tokens = self._spec, self._model.vocabulary.call_tokens
        match spec.reasoning:
            case "open" if spec.skip_reasoning and tokens.reasoning_end:
                thinking = State(Phase.THINKING)
                return self.force(thinking, tokens.reasoning_end, Phase.CONTENT, remaining)
            case "open":
                return State(Phase.THINKING)
            case "must" if tokens.reasoning_begin:
                content = State(Phase.CONTENT)
                return self.force(content, tokens.reasoning_begin, Phase.THINKING, remaining)
            case "content" if self._messages is not None:
                return self._messages.begin_inside(remaining)
            case _:
                return self._content.begin(remaining, may_reason=spec.reasoning == "may")

    def mask(self, state: State, remaining: Remaining) -> BitmaskRow:
        """Return the tokens allowed next. Raise NoTokenAllowed if there are none."""
        if state.forced:
            return self._model.allowing(state.forced[:1])
        phase = Phase.END if state.ended else state.phase
        return self._phases[phase].mask(state, remaining)

    def step(self, state: State, remaining: Remaining, token: int) -> State | None:
        """Return the state after `token`, before which `remaining` is left; None if not allowed."""
        if state.ended or not state.forced:
            phase = Phase.END if state.ended else state.phase
            return self._phases[phase].step(state, remaining, token)
        if token != state.forced[0]:
            return None
        rest, then = state.forced[1:], state.after_forced
        if rest:
            return state._replace(forced=rest)
        return self.begin(
            state._replace(forced=(), after_forced=Phase.END), then, remaining.less(1)
        )

    # --- transitions (phases/phase.py) ---

    def begin(self, state: State, phase: Phase, remaining: Remaining) -> State:
        if phase is Phase.THINKING:
            return State(Phase.THINKING)
        if phase is Phase.CONTENT and state.phase is Phase.THINKING:
            before = self._model.vocabulary.call_tokens.after_reasoning
            return self.force(
                self._content.begin(remaining.less(len(before))), before, phase, remaining
            )
        if phase is Phase.SELECT and state.phase is Phase.CONTENT:
            return self._select.begin_after_content(remaining)
        if phase is Phase.SELECT:
            return self._select.begin_after_call(state, remaining)
        return state._replace(phase=phase)

    def force(
        self, state: State, tokens: tuple[int, ...], then: Phase, remaining: Remaining
    ) -> State:
        if not tokens:
            return self.begin(state, then, remaining)
        return state._replace(forced=tokens, after_forced=then)

    def begin_call(self, remaining: Remaining, written: bytes) -> State:
        return self._calls.begin(remaining, written)

    def after_call_token(self, state: State, remaining: Remaining) -> State:
        return self._calls.after_token(state, remaining)

    def limited(self, state: State, tokens: Sequence[int], remaining: Remaining) -> State:
        """`state`, to which nothing limited the tokens, with `remaining` tokens. Inside or before a
        further call, only those tools remain whose calls fit. `tokens` are those of the call so
        far. Unchanged if a text has begun that does not fit."""
        if state.phase not in (Phase.SELECT, Phase.TOOL_CALL) or not state.calls:
            return state
        if state.candidates is None or state.forced:
            return state
        following: State | None = self._select.begin_after_call(
            State(Phase.TOOL_CALL, calls=state.calls - 1),
            remaining.less(-len(tokens)),
        )
        for token in tokens:
            following = following and self.step(following, remaining, token)
        return following or state
