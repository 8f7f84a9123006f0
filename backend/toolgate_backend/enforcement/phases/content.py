"""THINKING, and CONTENT: free text in which calls may begin, or what begins as constrained content
or a call."""

from __future__ import annotations

from toolgate_core import grammar_key

from ...tokens.masks import BitmaskRow
from ..candidates import Candidates
from ..state import Phase, Remaining, State
from .phase import NOTHING, FreeText, PhaseRules, TurnRules


class Thinking(PhaseRules):
    """THINKING: free text until the end of the reasoning."""

    def __init__(self, rules: TurnRules, text: FreeText) -> None:
        super().__init__(rules)
        self._text = text
        self._end = self._texts.reasoning_end

    def mask(self, state: State, remaining: Remaining) -> BitmaskRow:
        end = self._end
        assert end is not None
        if self._permissions.must_end_reasoning(state, remaining):
            return self._model.allowing(end.tokens[:1])
        return self._text.mask_until(state, end)

    def step(self, state: State, remaining: Remaining, token: int) -> State | None:
        end, turn = self._end, self._rules.turn
        assert end is not None
        if end.ends(state.partial_trigger, token):
            return turn.force(state, end.rest, Phase.CONTENT, remaining.less(1))
        if self._permissions.must_end_reasoning(state, remaining):
            first, *rest = end.tokens
            if token != first:
                return None
            return turn.force(state, tuple(rest), Phase.CONTENT, remaining.less(1))
        return self._text.step_until(state, end, token)


class Content(PhaseRules):
    def __init__(self, rules: TurnRules, text: FreeText) -> None:
        super().__init__(rules)
        self._text = text
        self._named = NamedCalls(rules) if self._texts.begins_with_name else None
        self._stops = frozenset(rules.spec.stop_ids)

    def begin(self, remaining: Remaining, *, may_reason: bool = False) -> State:
        """Return the state at the beginning of the content. Text is a candidate if the content has
        a schema, or if a call must begin with a text."""
        model, content = self._model, self._rules.content
        required = self._permissions.call_required(State(Phase.CONTENT))
        in_text = self._texts.has_text_trigger or self._texts.begins_with_name
        candidates: Candidates | None = None
        if in_text and (required or content):
            # A mark that begins the calls is allowed in addition, but a text is a candidate.
            calls = required or self._permissions.may_begin_call(State(Phase.CONTENT), remaining)
            grammars = (
                self._permissions.budget.fitting_grammars(remaining, first=True) if calls else ()
            )
            other = None if required else content
            call_id = self._rules.call_id(0)
            candidates = model.candidates(
                model.form.begin, grammars, call_id, content=other
            ).begun()
        elif content is not None:
            candidates = model.candidates("", (), "", content=content).begun()
        return State(Phase.CONTENT, may_reason=may_reason, candidates=candidates)

    def mask(self, state: State, remaining: Remaining) -> BitmaskRow:
        permissions, model = self._permissions, self._model
        marks = permissions.content_marks(state, remaining)
        if state.candidates is not None:
            return state.candidates.mask() | model.allowing(marks)
        if permissions.call_required(state):
            return model.allowing(marks)
        allowed = marks | permissions.content_ends(remaining)
        banned = permissions.banned_tokens(state)
        if self._texts.has_text_trigger:
            calling, not_calling = self._triggers(state, remaining)
            allowed |= calling & model.special
            banned |= not_calling
        if self._named is not None:
            banned |= self._named.banned(state, remaining)
        return model.free_text_mask(allowed, state.partial_mark, banned)

    def step(self, state: State, remaining: Remaining, token: int) -> State | None:
        permissions, model, texts = self._permissions, self._model, self._texts
        turn = self._rules.turn
        if token in permissions.content_marks(state, remaining):
            if token == texts.trigger_mark:
                assert texts.trigger is not None
                return turn.begin_call(remaining, texts.trigger.text)
            return turn.force(state, texts.reasoning_begin_rest, Phase.THINKING, remaining.less(1))
        if state.candidates is not None:
            return self._candidates_step(state._replace(may_reason=False), remaining, token)
        if permissions.call_required(state):
            return None
        if token in permissions.content_ends(remaining):
            return state._replace(phase=Phase.END, ended=True)
        match = texts.trigger if texts.has_text_trigger else None
        if match is not None and permissions.may_trigger(state):
            surplus = match.completed(state.partial_trigger, model.unit_bytes[token])
            if surplus is not None:
                return self._first_call(state, remaining, token)
        after = self._text.step(state, token)
        if after is not None and token in self._stops:
            return after._replace(phase=Phase.END)
        if after is not None and match is not None:
            partial = model.partial(match, state.partial_trigger, token)
            after = after._replace(partial_trigger=partial)
            written = len(state.partial_trigger) + len(model.unit_bytes[token])
            return after._replace(at_start=False) if len(partial) < written else after
        if after is not None and self._named is not None and state.at_start:
            return self._named.step(state, remaining, token, after)
        return after

    def _triggers(
        self, state: State, remaining: Remaining
    ) -> tuple[frozenset[int], frozenset[int]]:
        """Return the tokens that complete the text that begins the calls: those that are allowed,
        and the others. A token may extend into the call's text."""
        match = self._texts.trigger
        if match is None or not self._permissions.may_trigger(state):
            return NOTHING, NOTHING
        completing = match.containing | match.completing(state.partial_trigger)
        allowed = frozenset(
            t for t in completing if self._first_call(state, remaining, t) is not None
        )
        return allowed, completing - allowed

    def _first_call(self, state: State, remaining: Remaining, token: int) -> State | None:
        """Return the state after a token that completes the text that begins the calls; None if the
        call may not begin, or not with the rest of the token."""
        match = self._texts.trigger
        assert match is not None
        surplus = match.completed(state.partial_trigger, self._model.unit_bytes[token])
        assert surplus is not None
        if not self._permissions.may_begin_call(state, remaining):
            return None
        written, call_id = match.text + surplus, self._rules.call_id(0)
        grammars = self._permissions.budget.fitting_grammars(remaining, first=True)
        if surplus and not self._model.may_continue(grammars, call_id, written):
            return None
        return self._rules.turn.begin_call(remaining, written)

    def _candidates_step(self, state: State, remaining: Remaining, token: int) -> State | None:
        """Return the step in constrained content, or in a call that a text begins."""
        after = self._rules.candidates_step(state, token)
        if after is None:
            return None
        assert after.candidates is not None
        names = {grammar.name for grammar in after.candidates.grammars}
        if names == {grammar_key.CONTENT}:
            return after._replace(phase=Phase.FORMAT)
        if grammar_key.CONTENT in names:
            return after
        return self._rules.turn.after_call_token(
            after._replace(phase=Phase.TOOL_CALL), remaining.less(1)
        )


class NamedCalls:
    """Calls that begin with the name of a tool at the start of the turn, without a mark before it.
    The text is content as long as it can become something else, and a call once it has a tool's
    name with the text that follows names."""

    def __init__(self, rules: TurnRules) -> None:
        self._rules = rules
        self._permissions = rules.permissions
        self._model = rules.model
        grammars, form = rules.permissions.budget.grammars, rules.model.form
        self._triggers = [form.grammar_texts(each.name)[0].encode() for each in grammars]
        """The texts that begin the calls of the request's tools. They have no marks and ids."""

    def banned(self, state: State, remaining: Remaining) -> frozenset[int]:
        """Return the tokens that complete the beginning of a call that may not follow."""
        if not state.at_start:
            return NOTHING
        written, index = state.partial_trigger, self._model.token_index
        rests = [t.removeprefix(written) for t in self._triggers if t.startswith(written)]
        tokens = {token for rest in rests for token in index.starting_with(rest)}
        return frozenset(t for t in tokens if self._call(state, remaining, t) is None)

    def step(self, state: State, remaining: Remaining, token: int, after: State) -> State | None:
        """Return the state after a token of content at the start of the turn; `after` is the one if
        the content goes on."""
        text = state.partial_trigger + self._model.unit_bytes[token]
        if self._begins_call(text):
            return self._call(state, remaining, token)
        if any(trigger.startswith(text) for trigger in self._triggers):
            return after._replace(partial_trigger=text)
        return after._replace(partial_trigger=b"", at_start=False)

    def _call(self, state: State, remaining: Remaining, token: int) -> State | None:
        """Return the state in the call that `token` begins; None if it begins none, or may not."""
        text = state.partial_trigger + self._model.unit_bytes[token]
        if not self._begins_call(text):
            return None
        if not self._permissions.may_begin_call(state, remaining):
            return None
        grammars = self._permissions.budget.fitting_grammars(remaining, first=True)
        if not self._model.may_continue(grammars, self._rules.call_id(0), text):
            return None
        return self._rules.turn.begin_call(remaining, text)

    def _begins_call(self, text: bytes) -> bool:
        return any(text.startswith(trigger) for trigger in self._triggers)
