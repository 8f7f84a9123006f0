"""CONTENT and FORMAT: free text or constrained content, in which calls may begin."""

from __future__ import annotations

from toolgate_core import grammar_key

from ...tokens import masks
from ..permissions import NOTHING
from ..state import Phase, State
from .base import replace
from .messages import MessagePhase
from .named_calls import NamedCallPhase


class ContentPhases(MessagePhase, NamedCallPhase):
    def _begin_content(self, state: State, length: int) -> State:
        """The state after the reasoning. The text before the content is forced."""
        forced = self._static.call_tokens.after_reasoning
        content = State(
            Phase.CONTENT,
            reasoning_tokens=state.reasoning_tokens,
            candidates=self._content_candidates(length + len(forced)),
        )
        return self._force(content, forced, Phase.CONTENT, length)

    def _content_mask(self, state: State, length: int) -> masks.Mask:
        permissions, static = self._permissions, self._static
        if self._texts.has_messages:
            return self._message_mask(state, length)
        marks = permissions.content_marks(state, length)
        if state.candidates is not None:
            return masks.also_allow(state.candidates.mask(), marks)
        if permissions.call_required(state):
            return masks.Allow(masks.token_ids(marks))
        allowed = marks | permissions.content_ends(length)
        banned = permissions.banned_tokens(state)
        if self._texts.has_text_trigger:
            calling, not_calling = self._triggers(state, length)
            allowed |= calling & static.special
            banned |= not_calling
        if self._texts.begins_with_name:
            banned |= self._name_banned(state, length)
        return static.free_text_mask(allowed, state.partial_mark, banned)

    def _triggers(self, state: State, length: int) -> tuple[frozenset[int], frozenset[int]]:
        """The tokens that complete the text that begins the calls: those that are allowed, and the
        others. A token may extend into the call's text."""
        match = self._texts.trigger
        if match is None or not self._permissions.may_trigger(state):
            return NOTHING, NOTHING
        completing = match.containing | match.completing(state.partial_trigger)
        allowed = frozenset(t for t in completing if self._first_call(state, length, t) is not None)
        return allowed, completing - allowed

    def _first_call(self, state: State, length: int, token: int) -> State | None:
        """The state after a token that completes the text that begins the calls; None if the call
        may not begin, or not with the rest of the token."""
        match = self._texts.trigger
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
        permissions, static, texts = self._permissions, self._static, self._texts
        if texts.has_messages:
            return self._message_step(state, length, token)
        if token in permissions.content_marks(state, length):
            if token == texts.trigger_mark:
                assert texts.trigger is not None
                return self._begin_call(state, length, texts.trigger.text)
            return self._force(state, texts.reasoning_begin_rest, Phase.THINKING, length + 1)
        if state.candidates is not None:
            return self._candidates_step(replace(state, may_reason=False), length, token)
        if permissions.call_required(state):
            return None
        if token in permissions.content_ends(length):
            return replace(state, phase=Phase.END, ended=True)
        match = texts.trigger if texts.has_text_trigger else None
        if match is not None and permissions.may_trigger(state):
            surplus = match.completed(state.partial_trigger, static.unit_bytes[token])
            if surplus is not None:
                return self._first_call(state, length, token)
        after = self._free_text_step(state, token, state.reasoning_tokens)
        if after is not None and token in self._spec.stop_ids:
            return replace(after, phase=Phase.END)
        if after is not None and match is not None:
            after = self._track(after, static.partial(match, state.partial_trigger, token))
            written = len(state.partial_trigger) + len(static.unit_bytes[token])
            if state.at_start and len(after.partial_trigger) < written:
                return replace(after, at_start=False)
        if after is not None and texts.begins_with_name and state.at_start:
            return self._named_call_step(state, length, token, after)
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
        ends = self._format_ends(state)
        if candidates.finished:
            return masks.Allow(masks.token_ids(ends))
        return masks.also_allow(candidates.mask(), ends if candidates.complete else ())

    def _format_step(self, state: State, length: int, token: int) -> State | None:
        candidates = state.candidates
        assert candidates is not None
        if token in self._format_ends(state) and candidates.complete:
            if self._texts.content_end is None or token == self._static.marks.closed:
                return replace(state, phase=Phase.END, ended=True)
            rest = (*self._texts.content_end.tokens[1:], *self._texts.content_last)
            return self._force(state, rest, Phase.END, length + 1)
        return None if candidates.finished else self._grammar_step(state, token)

    def _format_ends(self, state: State) -> frozenset[int]:
        """The tokens that end constrained content."""
        if state.closing and self._static.marks.closed is not None:
            return self._closed_ends
        end = self._texts.content_end
        return self._content_ends if end is None else frozenset({end.tokens[0]})
