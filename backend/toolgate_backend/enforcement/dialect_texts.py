"""The texts of a dialect that are looked for in free phases."""

from __future__ import annotations

from ..tokens.units import units
from ..tokens.vocabulary import Vocabulary
from .text_match import TextMatch


class DialectTexts:
    def __init__(self, vocabulary: Vocabulary) -> None:
        dialect, form = vocabulary.dialect, vocabulary.form
        ordinary = [i for i in range(vocabulary.size) if i not in vocabulary.special]
        trigger = form.trigger if dialect.calls else ""
        in_trigger = [form.marks.token(char) for char in trigger if form.marks.is_mark(char)]
        self.trigger: TextMatch | None = (
            TextMatch(units(trigger, form.marks), vocabulary.unit_bytes, [*ordinary, *in_trigger])
            if trigger
            else None
        )
        """The text that begins the calls when it occurs in content."""
        self.trigger_mark = in_trigger[0] if len(trigger) == len(in_trigger) == 1 else None
        """The token that is the whole trigger, if it is one mark."""
        self.has_text_trigger = self.trigger is not None and self.trigger_mark is None
        self.spelled_mark: TextMatch | None = (
            TextMatch(form.marks.decode(trigger).encode(), vocabulary.token_bytes, ordinary)
            if in_trigger
            else None
        )
        """The same text in ordinary tokens, which is forbidden, if it contains a mark."""
        self.calls_end = units(form.end, form.marks)
        reasoning = dialect.reasoning
        self.reasoning_end: TextMatch | None = (
            TextMatch(reasoning.end.encode(), vocabulary.token_bytes, ordinary)
            if reasoning and reasoning.end not in vocabulary.marks.tokens
            else None
        )
        """The text that ends the reasoning, if that is not one mark."""
