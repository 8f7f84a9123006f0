"""The texts of a dialect that are looked for in tokens of free phases: reasoning and content."""

from __future__ import annotations

from ..tokens.units import TokenIndex, units
from ..tokens.vocabulary import Vocabulary


class FreeEnd:
    """The text that ends a free phase: reasoning, or a message of content.

    A free phase ends when its text ends with `text`, up to the first mark. What follows that
    mark is forced."""

    def __init__(self, text: str, vocabulary: Vocabulary, index: TokenIndex) -> None:
        """`text` is encoded (`Marks.encode`)."""
        marks = vocabulary.form.marks
        first = next((at for at, char in enumerate(text) if marks.is_mark(char)), len(text) - 1)
        decisive, rest = text[: first + 1], text[first + 1 :]
        in_decisive = [marks.token(char) for char in decisive if marks.is_mark(char)]
        self.tokens = vocabulary.literal_tokens(text)
        self.rest = vocabulary.literal_tokens(rest)
        """The tokens after the one that ends the phase."""
        self.mark: int | None = None
        """The token that ends the phase, if no text has to precede it."""
        self.match: TextMatch | None = None
        """The text that ends the phase, if it is more than a mark."""
        if len(decisive) == len(in_decisive) == 1:
            self.mark = in_decisive[0]
        else:
            self.match = TextMatch(units(decisive, marks), index)
        self._units = vocabulary.unit_bytes

    def ending(self, partial: bytes) -> tuple[frozenset[int], frozenset[int]]:
        """Return the tokens that end the phase after `partial`, and those that would continue
        beyond its end, which are not allowed."""
        if self.match is None:
            return frozenset({self.mark} if self.mark is not None else ()), frozenset()
        completing = self.match.containing | self.match.completing(partial)
        ends = frozenset(t for t in completing if self.ends(partial, t))
        return ends, completing - ends

    def ends(self, partial: bytes, token: int) -> bool:
        """Return whether `token` ends the phase after `partial`."""
        if self.match is None:
            return token == self.mark
        return self.match.completed(partial, self._units[token]) == b""

    def overshoots(self, partial: bytes, token: int) -> bool:
        """Return whether `token` contains the end of the phase and more."""
        return self.match is not None and bool(self.match.completed(partial, self._units[token]))

    def partial(self, before: bytes, token: int) -> bytes:
        """Return the beginning of the text at the end of what was written; `before` is the previous
        one."""
        return self.match.partial(before + self._units[token]) if self.match else b""


class TextMatch:
    """Matches one literal across tokens. All texts are units (tokens/units.py).

    Used for the texts that begin calls or end the reasoning, and for marks that the model spells in
    ordinary tokens, which clients would see in the content."""

    def __init__(self, text: bytes, index: TokenIndex) -> None:
        self.text = text
        self._index = index
        self.containing = frozenset(index.containing(text))
        """Tokens that contain the whole text."""

    def partial(self, written: bytes) -> bytes:
        """Return the longest end of `written` with which the text begins; usually empty."""
        text = self.text
        at = written.find(text[:1], max(0, len(written) - len(text) + 1))
        while at >= 0 and not text.startswith(written[at:]):
            at = written.find(text[:1], at + 1)
        return written[at:] if at >= 0 else b""

    def completing(self, partial: bytes) -> frozenset[int]:
        """Return the tokens that would complete the text after `partial`."""
        tokens: set[int] = set()
        for done in range(1, min(len(partial) + 1, len(self.text))):
            if partial.endswith(self.text[:done]):
                tokens.update(self._index.starting_with(self.text[done:]))
        return frozenset(tokens)

    def completed(self, partial: bytes, token_units: bytes) -> bytes | None:
        """Return the bytes after the text if a token with these units completes it after `partial`;
        otherwise None."""
        written = partial + token_units
        at = written.find(self.text)
        return None if at < 0 else written[at + len(self.text) :]


class DialectTexts:
    def __init__(self, vocabulary: Vocabulary, index: TokenIndex) -> None:
        dialect, form = vocabulary.dialect, vocabulary.form
        trigger = form.trigger if dialect.calls else ""
        in_trigger = [form.marks.token(char) for char in trigger if form.marks.is_mark(char)]
        self.trigger = TextMatch(units(trigger, form.marks), index) if trigger else None
        """The text that begins the calls when it occurs in content."""
        self.trigger_mark = in_trigger[0] if len(trigger) == len(in_trigger) == 1 else None
        """The token that is the whole trigger, if it is one mark."""
        in_text = self.trigger is not None and self.trigger_mark is None
        self.has_text_trigger = in_text and not dialect.content.begin
        """Whether a text in content begins the calls. Where messages are typed, none does."""
        self.begins_with_name = bool(dialect.calls) and not trigger and not dialect.content.begin
        """Whether a call at the start of the turn begins with the name of a tool."""
        spelled = form.marks.decode(trigger).encode()
        self.spelled_mark = TextMatch(spelled, index) if in_trigger else None
        """The same text in ordinary tokens, which is forbidden, if it contains a mark."""
        self.calls_end = units(form.end, form.marks)
        encode, reasoning, content = form.marks.encode, dialect.reasoning, dialect.content

        def end(text: str) -> FreeEnd | None:
            return FreeEnd(encode(text), vocabulary, index) if text else None

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
