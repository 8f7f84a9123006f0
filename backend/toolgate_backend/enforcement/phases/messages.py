"""CONTENT in families that write a turn as a list of typed messages.

Without `message`, the state is at the beginning of a message: the candidates are the texts with
which reasoning, content and calls begin. With it, the state is inside content, as free text.
"""

from __future__ import annotations

from ...tokens import masks
from ..calls.candidates import CandidateSet
from ..free_text.free_end import FreeEnd
from ..state import Phase, State
from .base import replace
from .calls import CallPhases
from .thinking import ThinkingPhase


class MessagePhase(ThinkingPhase, CallPhases):
    def _content_candidates(self, length: int, *, may_reason: bool = False) -> CandidateSet | None:
        """The texts with which the content may begin; None if it is free text."""
        static, permissions, content = self._static, self._permissions, self._content
        required = self._spec.choice == "required"
        calls = required or permissions.may_begin_call(State(Phase.CONTENT), length)
        budget = permissions.budget
        grammars = budget.fitting_grammars(length, first=True) if calls else ()
        call_id = self._call_id(0)
        if self._texts.has_messages:
            reasons = may_reason and (not required or budget.fits_reasoning(length))
            kinds = ["reasoning"] if reasons else []
            if required:
                kinds.append("empty")
            else:
                kinds += ["content"] if content is None else []
                kinds += ["preamble"] if grammars and self._fits_preamble(length) else []
            calls_now = () if self._texts.content_always else grammars
            return static.messages(kinds, None if required else content, calls_now, call_id)
        in_text = self._texts.has_text_trigger or self._texts.begins_with_name
        if in_text and (required or content):
            # A mark that begins the calls is allowed in addition, but a text is a candidate.
            return static.content_or_calls(None if required else content, grammars, call_id)
        return static.content_or_calls(content, (), "") if content is not None else None

    def _fits_preamble(self, length: int) -> bool:
        """Whether a call fits after a message that only a call may follow. The model may write the
        beginning of the message in the smallest tokens."""
        begin, end = self._texts.begins.get("preamble", b""), self._texts.preamble_end
        tokens = len(begin) + (len(end.tokens) if end else 0)
        return self._permissions.budget.fits_call(length, tokens)

    def _inside_content(self) -> State:
        """The state if the prompt ends inside a message of content."""
        state, end = State(Phase.CONTENT, message="content"), self._texts.content_end
        if self._spec.choice == "required" and end and self._texts.preamble_is_content:
            return self._force(state, end.tokens, Phase.SELECT, 0)
        if self._content is not None:
            candidates = self._static.content_or_calls(self._content, (), "")
            return State(Phase.FORMAT, candidates=candidates)
        return state

    def _message_mask(self, state: State, length: int) -> masks.Mask:
        if state.candidates is not None:
            return state.candidates.mask()
        static, permissions = self._static, self._permissions
        end = self._message_end(state)
        if end is None:
            ending, beyond = permissions.content_ends(length), frozenset[int]()
        elif self._must_end_preamble(state, end, length):
            return masks.single(end.tokens[0])
        else:
            ending, beyond = end.ending(state.partial_trigger)
            ending &= static.special
            if length < self._spec.min_tokens:
                ending = frozenset()
        banned = permissions.banned_tokens(state) | beyond
        return static.free_text_mask(ending, state.partial_mark, banned)

    def _message_step(self, state: State, length: int, token: int) -> State | None:
        if state.candidates is not None:
            return self._beginning_step(state, length, token)
        end = self._message_end(state)
        if end is None:
            if token in self._permissions.content_ends(length):
                return replace(state, phase=Phase.END, ended=True)
        elif end.ends(state.partial_trigger, token):
            if length < self._spec.min_tokens:
                return None
            return self._end_message(state, end.rest, length + 1)
        elif self._must_end_preamble(state, end, length):
            if token != end.tokens[0]:
                return None
            return self._end_message(state, end.tokens[1:], length + 1)
        elif end.overshoots(state.partial_trigger, token):
            return None
        after = self._free_text_step(state, token, state.reasoning_tokens)
        if after is None or end is None:
            return after
        return self._track(after, end.partial(state.partial_trigger, token))

    def _beginning_step(self, state: State, length: int, token: int) -> State | None:
        after = self._grammar_step(state, token)
        if after is None:
            return None
        assert after.candidates is not None
        kind = self._static.message_kind(after.candidates)
        if kind == "call":
            return self._end_grammar(replace(after, phase=Phase.TOOL_CALL), length + 1)
        if kind == "format":
            return replace(after, phase=Phase.FORMAT)
        if kind is None or not after.candidates.finished:
            return after
        if kind == "reasoning":
            return self._begin_thinking(state)
        if kind == "empty":
            return self._after_content(after, length + 1)
        return State(Phase.CONTENT, reasoning_tokens=state.reasoning_tokens, message=kind)

    def _message_end(self, state: State) -> FreeEnd | None:
        """The text that ends the content; None if an end-of-turn token does."""
        texts = self._texts
        return texts.preamble_end if state.message == "preamble" else texts.content_end

    def _must_end_preamble(self, state: State, end: FreeEnd, length: int) -> bool:
        """Whether the call that follows needs all tokens that remain."""
        if state.message != "preamble":
            return False
        return not self._permissions.budget.fits_usual_call(length, len(end.tokens) + 1)

    def _end_message(self, state: State, rest: tuple[int, ...], length: int) -> State:
        """The state after the end of the content, of which `rest` is to come."""
        if state.message == "preamble" or self._texts.preamble_is_content:
            return self._force(state, rest, Phase.SELECT, length)
        return self._force(state, (*rest, *self._texts.content_last), Phase.END, length)
