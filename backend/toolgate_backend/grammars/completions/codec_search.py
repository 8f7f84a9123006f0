"""Search for a short completion of arguments that are not JSON.

Inside a raw value, what ends a string depends on the codec. The search tries the texts that end
something in that codec, and takes the first one after which the mask is no longer that of free
text.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from toolgate_core.dialects.arguments.tagged import CDATA_END
from toolgate_core.dialects.codecs import Codec, GemmaValues, Json, NestedTags, Pythonic, Tagged
from toolgate_core.dialects.dialect import ARGUMENTS, Slot

from ...tokens import masks
from ...tokens.call_form import CallForm
from ...tokens.masks import BitmaskRow
from ...tokens.units import units
from ..codecs.pythonic import python_string
from ..engines.engine import Matcher
from .hints import Beginnings, Needs
from .json_texts import SHORT_VALUES, Scan, rests_of
from .search import FOUND, MISSED, Completion

FREE_TEXT = 0.25
"""Share of the vocabulary from which on a mask is that of free text."""
TRIED = 6
"""Number of tokens that are tried for one after which something can be ended."""
_BRACKETS = ("]", "}")
_JSON_ENDS = (*_BRACKETS, '"')


def closers(form: CallForm) -> tuple[bytes, ...]:
    """The texts that end something in the arguments of a dialect, outermost first, in units."""
    codec: Codec = form.codec
    if isinstance(codec, Json):
        return ()
    parts = form.calls.call
    after = next((p for p in parts[parts.index(ARGUMENTS) + 1 :] if not isinstance(p, Slot)), "")
    inner: tuple[str, ...]
    match codec:
        case Tagged(end=end, cdata=cdata):
            inner = (end, CDATA_END + end, *_JSON_ENDS) if cdata else (end, *_JSON_ENDS)
        case GemmaValues(quote=quote):
            inner = (quote, *_BRACKETS)
        case NestedTags(namespace=namespace):
            inner = (f"{namespace}</",)
        case Pythonic():
            inner = ("'", *_JSON_ENDS)
    texts = [text for text in (after, *inner) if text]
    return tuple(units(form.marks.encode(text), form.marks) for text in dict.fromkeys(texts))


def separators(form: CallForm) -> tuple[bytes, ...]:
    """The texts between values, and between a bare name and its value. A name that another member
    has already is lengthened by a digit."""
    match form.codec:
        case GemmaValues():
            return (b",", b":", b"1:")
        case Pythonic():
            return (b", ", b"=", b"1=")
    return ()


def make_completion(
    form: CallForm,
    token_bytes: Sequence[bytes],
    special: frozenset[int],
    marks: frozenset[int] = frozenset(),
) -> Completion:
    """The search for the calls of a dialect. `marks` can be part of the text before a grammar."""
    found = closers(form)
    if not found:
        completion = Completion(token_bytes, special, form.grammar_marks, marks)
        if isinstance(form.codec, Json):
            completion.key_separator = form.codec.key_separator
        head = form.marks.decode(form.begin + form.head("name", "id"))
        completion.call_scan = Scan().after(head.encode())
        return completion
    return CodecCompletion(form, token_bytes, special, form.grammar_marks, marks, found)


class CodecCompletion(Completion):
    """As `Completion`, with the closers of a codec in place of those of JSON."""

    def __init__(
        self,
        form: CallForm,
        token_bytes: Sequence[bytes],
        special: frozenset[int],
        grammar_marks: frozenset[int],
        marks: frozenset[int],
        closers: tuple[bytes, ...],
    ) -> None:
        super().__init__(token_bytes, special, grammar_marks, marks)
        self._form = form
        self._closers = closers
        self._separators = separators(form)
        quotes = {b"'", b'"'}
        if isinstance(form.codec, GemmaValues):
            quotes.add(units(form.marks.encode(form.codec.quote), form.marks))
        self._quotes = tuple(each for each in closers if each in quotes)
        self._after_quotes = [each for each in closers if each not in self._quotes] + [b",", b":"]
        if isinstance(form.codec, Pythonic):
            self.short_values = (*SHORT_VALUES, b"''", b"None", b"True")
        self._raw_texts = lru_cache(512)(self.raw_texts)

    def member_texts(self, name: str) -> list[bytes]:
        form, codec = self._form, self._form.codec
        texts: list[str] = []
        match codec:
            case Tagged():
                key = name
                for char, written in codec.escapes:
                    key = key.replace(char, written)
                texts.append(codec.begin + key + codec.middle.partition("{type}")[0])
            case NestedTags(namespace=namespace):
                texts += [f"{namespace}<{name}>", f"<{name}>"]
            case GemmaValues(quote=quote):
                texts += [f"{name}:", f"{quote}{name}{quote}:"]
            case Pythonic():
                texts += [f"{name}=", f"{python_string(name, chr(39))}: "]
        encoded = [units(form.marks.encode(text), form.marks) for text in texts]
        return encoded + super().member_texts(name)

    def string_texts(self, text: str, in_string: bool) -> list[bytes]:
        """Whole strings of JSON. `scan` does not tell whether a string has begun, and the rests of
        one are among the raw texts."""
        return super().string_texts(text, False)

    def raw_texts(self, texts: tuple[str, ...], ends: tuple[bytes, ...]) -> Beginnings:
        """The rests of raw texts, each with an end."""
        found = [
            (text[at:], text[at:].encode() + end)
            for end in ends
            for text in texts
            for at in rests_of(text)
        ]
        return Beginnings(found, self.token_index)

    def spellings(self, text: bytes) -> list[bytes]:
        """The strings of Python can have either quotation mark."""
        if not isinstance(self._form.codec, Pythonic):
            return [text]
        return [text, text.replace(b'"', b"'")]

    def _raw_text(
        self, matcher: Matcher, row: BitmaskRow, needs: Needs, ends: tuple[bytes, ...]
    ) -> tuple[list[int], int]:
        """The tokens of a raw text of the hints with its end, and the number of those before the
        end."""
        for rest, whole in self._raw_texts(needs.texts, ends).allowed(row):
            if tokens := self._ended_by(matcher, whole, row):
                needs.use(rest)
                return tokens, self.cost(rest)
        return [], 0

    def _forced_text(self, matcher: Matcher, scan: Scan) -> bytes:
        """None: it may end inside a name, of which the hints have the whole."""
        return b""

    def _next(
        self, matcher: Matcher, row: BitmaskRow, scan: Scan, needs: Needs
    ) -> tuple[list[int], int]:
        allowed = masks.unpack(row)
        if not len(allowed):
            return self._forced(matcher), 0
        longest = self._tokens.longest(allowed)
        chain = len(allowed) == 1 or self._tokens.are_chain(allowed, longest)
        free = len(allowed) > FREE_TEXT * len(self._bytes)
        single = len(allowed) == 1
        if single and not self._begins_member(longest):
            return [longest], 0
        # A short string may have every character, also those of the ends below.
        if self._separators and not free and not self._ends_string(matcher):
            string, _ = self._raw_text(matcher, row, needs, self._quotes)
            if string:
                return string, 0
        # The mask of the first token does not tell the end of the call from another member.
        if ending := self._ending(matcher):
            return ending, 0 if single else FOUND
        if single:
            return self._member(matcher, row, needs) or [longest], 0
        named = self._open_member if free or self._separators else self._member
        if member := named(matcher, row, needs):
            return member, 0
        if forced := self._forced(matcher):
            return forced, 0
        if chain:
            return [self._forced_part(matcher, allowed)], 0
        # A raw text may contain any short value, and any text of the hints.
        raw, count = self._raw_text(matcher, row, needs, self._closers)
        value = [] if free else self._short_value(matcher, row)
        if value and not 0 < count <= len(value):
            return value, 0
        if raw or (raw := self._text(matcher, row, scan, needs)):
            return raw, 0
        for token in self._tokens.by_length(allowed, TRIED):
            if not matcher.accept(token):
                continue
            try:
                if matcher.finished or self._ending(matcher):
                    return [token], FOUND
            finally:
                matcher.rollback(1)
        return [longest], MISSED

    def _open_member(self, matcher: Matcher, row: BitmaskRow, needs: Needs) -> list[int]:
        """As `_member`, where masks do not tell a name from a text."""
        for name, text in self._beginnings(needs.names, needs.opened).allowed(row):
            if needs.is_written(name) or self._tokens_of(matcher, text + text[-1:]):
                continue
            if tokens := self._ended_by(matcher, text, row):
                needs.write(name)
                return tokens
        return []

    def _can_end(self, matcher: Matcher) -> bool:
        return matcher.finished or bool(self._ending(matcher))

    def _begins_member(self, token: int) -> bool:
        begin = self._tokens.units(token)
        return any(text.startswith(begin) for text in self._member_texts(""))

    def _ending(self, matcher: Matcher) -> list[int]:
        """The tokens of the first closer that ends something here, or of a separator; none if
        neither does."""
        for closer in self._closers:
            tokens = self._ended_by(matcher, closer)
            if tokens and not (closer in self._quotes and self._opens_string(matcher, tokens)):
                return tokens
        for separator in self._separators:
            # A mask does not tell a string from a free name, but a string may have two in a row.
            twice = 2 * separator.removeprefix(b"1")
            tokens = self._tokens_of(matcher, separator)
            if tokens and not self._tokens_of(matcher, twice):
                return tokens
        return []

    def _ends_string(self, matcher: Matcher) -> bool:
        """Whether a quotation mark ends a string here."""
        quotes = (self._ended_by(matcher, quote) for quote in self._quotes)
        return any(tokens and not self._opens_string(matcher, tokens) for tokens in quotes)

    def _opens_string(self, matcher: Matcher, quote: list[int]) -> bool:
        """Whether a quotation mark does not end a string. It may begin one of a few: nothing that
        follows a string may follow. It may be in one with the other marks."""
        for token in quote:
            matcher.accept(token)
        followed = matcher.finished or (
            any(self._tokens_of(matcher, text) for text in self._after_quotes)
            and not self._tokens_of(matcher, b"a")
        )
        matcher.rollback(len(quote))
        return not followed

    def _ended_by(self, matcher: Matcher, text: bytes, row: BitmaskRow | None = None) -> list[int]:
        """The tokens of `text` if it ends something here, otherwise none. `row` is the mask."""
        tokens = self._accepted(matcher, text, row)
        if not tokens:
            return []
        ends = matcher.finished or not self._is_free_text(matcher)
        matcher.rollback(len(tokens))
        return tokens if ends else []

    def _tokens_of(self, matcher: Matcher, text: bytes) -> list[int]:
        """The tokens of `text` if it may follow, otherwise none."""
        tokens = self._accepted(matcher, text)
        matcher.rollback(len(tokens))
        return tokens

    def _is_free_text(self, matcher: Matcher) -> bool:
        allowed = int(np.bitwise_count(self._tokens.mask(matcher).view(np.uint32)).sum())
        return allowed > FREE_TEXT * len(self._bytes)
