"""CONTENT in families that write a turn as a list of typed messages.

Without `message`, the state is at the beginning of a message: the candidates are the texts with
which reasoning, content and calls begin. With it, the state is inside content, as free text.
"""

from __future__ import annotations

from ...tokens.masks import BitmaskRow
from ..dialect_texts import FreeEnd
from ..state import Phase, Remaining, State
from .phase import FreeText, PhaseRules, TurnRules


class Messages(PhaseRules):
    def __init__(self, rules: TurnRules, text: FreeText) -> None:
        super().__init__(rules)
        self._text = text

    def begin(self, remaining: Remaining, *, may_reason: bool = False) -> State:
        """Return the state at the beginning of a message."""
        permissions, content = self._permissions, self._rules.content
        budget, state = permissions.budget, State(Phase.CONTENT, may_reason=may_reason)
        required = permissions.call_required(state)
        calls = required or permissions.may_begin_call(state, remaining)
        grammars = budget.fitting_grammars(remaining, first=True) if calls else ()
        reasons = may_reason and (not required or budget.fits_reasoning(remaining))
        kinds = ["reasoning"] if reasons else []
        if required:
            kinds.append("empty")
        else:
            kinds += ["content"] if content is None else []
            kinds += ["preamble"] if grammars and self._fits_preamble(remaining) else []
        offered = self._model.candidates(
            self._model.form.begin,
            () if self._texts.content_always else grammars,
            self._rules.call_id(0),
            kinds=kinds,
            content=None if required else content,
            content_head=self._texts.begins["content"],
        )
        return state._replace(candidates=offered.begun())

    def begin_inside(self, remaining: Remaining) -> State:
        """Return the state if the prompt ends inside a message of content."""
        state, end = State(Phase.CONTENT, message="content"), self._texts.content_end
        if self._permissions.call_required(state) and end and self._texts.preamble_is_content:
            return self._rules.turn.force(state, end.tokens, Phase.SELECT, remaining)
        if self._rules.content is not None:
            offered = self._model.candidates("", (), "", content=self._rules.content)
            return State(Phase.FORMAT, candidates=offered.begun())
        return state

    def mask(self, state: State, remaining: Remaining) -> BitmaskRow:
        if state.candidates is not None:
            return state.candidates.mask()
        model, permissions = self._model, self._permissions
        end = self._end(state)
        if end is None:
            ending, banned = permissions.content_ends(remaining), permissions.banned_tokens(state)
            return model.free_text_mask(ending, state.partial_mark, banned)
        if self._must_end_preamble(state, end, remaining):
            return model.allowing(end.tokens[:1])
        return self._text.mask_until(state, end, early=remaining.early)

    def step(self, state: State, remaining: Remaining, token: int) -> State | None:
        if state.candidates is not None:
            return self._beginning_step(state, remaining, token)
        end = self._end(state)
        if end is None:
            if token in self._permissions.content_ends(remaining):
                return state._replace(phase=Phase.END, ended=True)
            return self._text.step(state, token)
        if end.ends(state.partial_trigger, token):
            return None if remaining.early else self._after(state, end.rest, remaining.less(1))
        if self._must_end_preamble(state, end, remaining):
            ends = token == end.tokens[0]
            return self._after(state, end.tokens[1:], remaining.less(1)) if ends else None
        return self._text.step_until(state, end, token)

    def _beginning_step(self, state: State, remaining: Remaining, token: int) -> State | None:
        after = self._rules.candidates_step(state, token)
        if after is None:
            return None
        assert after.candidates is not None
        turn, kind = self._rules.turn, self._model.message_kind(after.candidates)
        if kind == "call":
            return turn.after_call_token(after._replace(phase=Phase.TOOL_CALL), remaining.less(1))
        if kind == "format":
            return after._replace(phase=Phase.FORMAT)
        if kind is None or not after.candidates.finished:
            return after
        if kind == "reasoning":
            return turn.begin(state, Phase.THINKING, remaining.less(1))
        if kind == "empty":
            return turn.begin(after, Phase.SELECT, remaining.less(1))
        return State(Phase.CONTENT, message=kind)

    def _fits_preamble(self, remaining: Remaining) -> bool:
        """Return whether a call fits after a message that only a call may follow. The model may
        write the beginning of the message in the smallest tokens."""
        begin, end = self._texts.begins.get("preamble", b""), self._texts.preamble_end
        tokens = len(begin) + (len(end.tokens) if end else 0)
        return self._permissions.budget.fits_call(remaining, tokens)

    def _end(self, state: State) -> FreeEnd | None:
        """Return the text that ends the content; None if an end-of-turn token does."""
        texts = self._texts
        return texts.preamble_end if state.message == "preamble" else texts.content_end

    def _must_end_preamble(self, state: State, end: FreeEnd, remaining: Remaining) -> bool:
        """Return whether the call that follows needs all tokens that remain."""
        if state.message != "preamble":
            return False
        return not self._permissions.budget.fits_usual_call(remaining, len(end.tokens) + 1)

    def _after(self, state: State, rest: tuple[int, ...], remaining: Remaining) -> State:
        """Return the state after the end of the content, of which `rest` is to come."""
        if state.message == "preamble" or self._texts.preamble_is_content:
            return self._rules.turn.force(state, rest, Phase.SELECT, remaining)
        return self._rules.turn.force(
            state, (*rest, *self._texts.content_last), Phase.END, remaining
        )
