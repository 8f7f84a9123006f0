"""The texts of a dialect that are looked for in free phases."""

from __future__ import annotations

from ...tokens.units import units
from ...tokens.vocabulary import Vocabulary
from .free_end import FreeEnd
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
        in_text = self.trigger is not None and self.trigger_mark is None
        self.has_text_trigger = in_text and not dialect.content.begin
        """Whether a text in content begins the calls. Where messages are typed, none does."""
        self.begins_with_name = bool(dialect.calls) and not trigger and not dialect.content.begin
        """Whether a call at the start of the turn begins with the name of a tool."""
        self.all_text: TextMatch | None = (
            TextMatch(b"\xff", vocabulary.unit_bytes, ordinary) if self.begins_with_name else None
        )
        """An index of the ordinary tokens, if names begin calls."""
        self.spelled_mark: TextMatch | None = (
            TextMatch(form.marks.decode(trigger).encode(), vocabulary.token_bytes, ordinary)
            if in_trigger
            else None
        )
        """The same text in ordinary tokens, which is forbidden, if it contains a mark."""
        self.calls_end = units(form.end, form.marks)
        encode, reasoning, content = form.marks.encode, dialect.reasoning, dialect.content

        def end(text: str) -> FreeEnd | None:
            return FreeEnd(encode(text), vocabulary) if text else None

        self.reasoning_end = end(reasoning.end) if reasoning else None
        self.content_end = end(content.end)
        """The end of a message of content, if the dialect has messages and texts that end them."""
        self.preamble_end = end(content.preamble_end)
        self.has_messages = bool(content.begin)
        self.content_always = content.always
        self.preamble_is_content = bool(content.preamble) and content.preamble == content.begin
        self.content_last = vocabulary.literal_tokens(encode(content.last))
        self.begins = {
            kind: units(encode(text), form.marks)
            for kind, text in (
                ("reasoning", reasoning.begin if reasoning else ""),
                ("content", content.begin),
                ("preamble", "" if self.preamble_is_content else content.preamble),
                ("empty", content.begin + content.end if content.always else ""),
            )
            if text
        }
        """By kind: the texts with which messages begin."""
        self.content_last_units = units(encode(content.last), form.marks)
        begin = encode(reasoning.begin) if reasoning else ""
        first = begin[:1]
        self.reasoning_mark = form.marks.token(first) if form.marks.is_mark(first) else None
        """The token with which the reasoning begins, if that is a mark."""
        self.reasoning_begin_rest = vocabulary.literal_tokens(begin[1:]) if begin else ()
        looked_for = [self.trigger, self.spelled_mark]
        ends = (self.reasoning_end, self.content_end, self.preamble_end)
        looked_for += [end.match for end in ends if end is not None]
        self.first_bytes = frozenset(each.text[0] for each in looked_for if each is not None)
        """The bytes with which texts begin that are looked for in free phases."""
