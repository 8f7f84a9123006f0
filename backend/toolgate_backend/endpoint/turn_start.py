"""The state in which a response begins, from the end of the prompt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from toolgate_core.errors import UnsupportedParameter
from toolgate_core.wire import ReasoningMode

from ..enforcement.spec import ReasoningStart
from ..tokens.units import mark_unit, units
from ..tokens.vocabulary import Vocabulary


class TurnStart:
    """Reads the assistant turn that a prompt leaves open."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._unit_bytes = vocabulary.unit_bytes
        marks = vocabulary.marks
        self._ends = frozenset(marks.end_of_turn)
        self._headers = vocabulary.special - {*marks.tokens.values()}
        self._marks = frozenset(map(mark_unit, marks.tokens.values()))
        encode = vocabulary.form.marks.encode
        reasoning, calls = vocabulary.dialect.reasoning, vocabulary.dialect.calls

        def text(literal: str) -> bytes:
            return units(encode(literal), vocabulary.form.marks)

        content = vocabulary.dialect.content
        self._content = (text(content.begin), text(content.end))
        self._turn = text(content.turn)
        self._reasoning = (text(reasoning.begin), text(reasoning.end)) if reasoning else None
        last = calls.call[-1] if calls else ""
        closing = calls.end or (last if isinstance(last, str) else "") if calls else ""
        self._call = (units(vocabulary.form.trigger, vocabulary.form.marks), text(closing))

    def refuse_open_call(self, prompt_ids: Sequence[int]) -> None:
        """Raise UnsupportedParameter if the prompt ends inside a tool call. The beginning of that
        call was not constrained by its schema."""
        begin, end = self._call
        if begin and self._last_of(prompt_ids, begin, end) == begin:
            raise UnsupportedParameter(
                "A message that ends inside a tool call cannot be continued. Remove "
                "continue_final_message, or end the message before the call.",
                param="continue_final_message",
            )

    def reasoning(
        self, prompt_ids: Sequence[int], mode: ReasoningMode, *, continues: bool = False
    ) -> ReasoningStart:
        """Return the state of the reasoning, from the last text of the prompt that begins or ends
        it."""
        begin, end = self._content
        if begin and self._last_of(prompt_ids, begin, end) == begin:
            return "content"
        if self._reasoning is None:
            return "closed"
        begin, end = self._reasoning
        last = self._last_of(prompt_ids, begin, end)
        if last == begin:
            return "open"
        if continues:
            return "closed"  # the message began without reasoning
        if mode == "on":
            return "must"
        return "closed" if mode == "off" or last == end else "may"

    def _last_of(self, prompt_ids: Sequence[int], begin: bytes, end: bytes) -> bytes | None:
        """Return the last of two texts in the open turn; None if there is none."""
        if {begin, end} <= self._marks:
            turn = (self._unit_bytes[token] for token in self._reversed(prompt_ids, self._ends))
            return next((unit for unit in turn if unit in (begin, end)), None)
        # A user's text cannot contain marks, but it can contain the other texts of the dialect.
        tokens = [*self._reversed(prompt_ids, self._ends | self._headers)]
        written = b"".join(self._unit_bytes[token] for token in reversed(tokens))
        written = written.rpartition(self._turn)[2] if self._turn else written
        at_begin = written.rfind(begin)
        at_end = written.find(end, at_begin + len(begin)) if end and at_begin >= 0 else -1
        at_end = written.rfind(end) if end and at_begin < 0 else at_end
        if max(at_begin, at_end) < 0:
            return None
        return begin if at_begin > at_end else end

    def _reversed(self, prompt_ids: Sequence[int], borders: frozenset[int]) -> Iterator[int]:
        """Yield the tokens after the last of `borders`, from the last to the first."""
        for token in reversed(prompt_ids):
            if token in borders:
                return
            yield token
