"""The place at which the text of a call ends, as far as it matters for bounds on values: inside a
string or outside, how deep inside objects and arrays, and the number that has begun.

Each codec has a reader, which reads a text part by part. Texts are units (tokens/units.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from toolgate_core.dialects.dialect import FlatTags, GemmaValues, NestedTags, Pythonic

from ...tokens.call_form import CallForm
from ...tokens.units import units
from ..codecs.rules import OTHERS, TagText

Tags = Mapping[bytes, TagText]
"""What the text in tags is, by name."""
_WORD = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.+-"
MAX_NAME = 4096
"""Maximum length of a tag that is read."""


class Place(NamedTuple):
    """A place in the text of a call. `begun`, `word`, `head` and `tail` are parts of the text
    before it that matter."""

    quote: bytes = b""
    """The mark of the string in which the text ends; empty outside of strings."""
    depth: int = 0
    word: bytes = b""
    """The letters, digits and signs at the end, outside of strings."""
    begun: bytes = b""
    """An escape, or a mark, that may have begun at the end. It is not read yet."""
    between: bool = False
    """Whether the place is between the values of tags, or inside raw text."""
    raw: bool = False
    """Whether it is inside raw text."""
    head: bytes = b""
    """Of tags: the text since the last value."""
    tail: bytes = b""
    """Of tags: the last bytes, in which the end of a value may have begun; inside raw text, only
    its own."""


BEGIN = Place()
BETWEEN = Place(between=True)


def value_of(place: Place) -> Place | None:
    """Return the place if it is inside a value, but not inside raw text."""
    return None if place.between else place


def mark_of(place: Place) -> bytes | None:
    """Return the mark of the string in which a place is, which is empty for raw text; None outside
    of strings."""
    return b"" if place.raw else place.quote or None


class _QuotedStrings:
    """Strings in quotation marks."""

    begin = BEGIN

    def __init__(self, marks: tuple[bytes, ...], *, escapes: bool) -> None:
        self._marks = marks
        self._escapes = escapes
        char = rb"[^%b\\]|\\." if escapes else rb"(?!%b)."
        ways = (b"%b(?:%b)*(%b)?" % (m, char % m, m) for m in map(re.escape, marks))
        self._strings = re.compile(b"|".join(ways), re.DOTALL)
        self._ending = re.compile(b"(?:%b).*[\\[{]" % b"|".join(map(re.escape, marks)), re.DOTALL)

    def after(self, place: Place, text: bytes, tags: Tags) -> Place:
        """Return the place after some more text. `place` is one of this reader's."""
        quote = b""

        def outside(match: re.Match[bytes]) -> bytes:
            nonlocal quote
            closed = match.lastindex is not None
            quote = b"" if closed else next(m for m in self._marks if match[0].startswith(m))
            return b'"'

        text = place.begun + text
        begun = self._begun(text)
        text, left = text[: len(text) - begun], text[len(text) - begun :]
        rest = self._strings.sub(outside, place.quote + text)
        word = b"" if quote else _word(place.word + rest)
        return Place(quote, place.depth + _depth(rest), word, left)

    def _begun(self, text: bytes) -> int:
        """Return the length of an escape, or of a mark, that may have begun at the end of a
        text."""
        if self._escapes:
            return (len(text) - len(text.rstrip(b"\\"))) % 2
        longest = max(map(len, self._marks)) - 1
        begun = (n for n in range(longest, 0, -1) if text.endswith(self._marks[0][:n]))
        return next(begun, 0)

    def ends(self, token: bytes) -> bool:
        """Return whether a token may end a string and then open a value."""
        return self._ending.search(token) is not None


JSON = _QuotedStrings((b'"',), escapes=True)


class _Tags:
    """JSON or raw strings between tags."""

    begin = BETWEEN

    def __init__(self, form: CallForm, codec: FlatTags) -> None:
        def encoded(text: str) -> bytes:
            return units(form.marks.encode(text), form.marks)

        after_key, _, after_type = codec.middle.partition("{type}")
        self._begin, self._after_key = encoded(codec.begin), encoded(after_key)
        self._after_type, self._end = encoded(after_type), encoded(codec.end)
        self._string = dict(codec.types).get("string", "").encode()

    def after(self, place: Place, text: bytes, tags: Tags) -> Place:
        seen = place.tail + text
        at = seen.rfind(self._end)
        if at >= 0:
            seen = text = seen[at + len(self._end) :]
            place = BETWEEN
        tail = seen[max(0, len(seen) - len(self._end) + 1) :]
        if place.raw:
            return place._replace(tail=tail)
        if not place.between:
            return JSON.after(place, text, tags)._replace(tail=tail)
        return self._argument(place.head + text, tags, tail)

    def _argument(self, head: bytes, tags: Tags, tail: bytes) -> Place:
        """Return the place after a text that has begun outside of a value, and ends with `tail`."""
        _, _, argument = head.partition(self._begin)
        key, is_known, value = argument.partition(self._after_key)
        kind = tags.get(key) or tags.get(OTHERS, "text")
        if self._after_type:
            kind_written, is_known, value = value.partition(self._after_type)
            kind = "text" if kind_written == self._string else "json"
        if (not is_known or (kind == "either" and not value)) and len(head) <= MAX_NAME:
            return BETWEEN._replace(head=head, tail=tail)
        if not is_known or kind == "text" or (kind == "either" and value[:1] not in b"{["):
            return BETWEEN._replace(raw=True, tail=tail[max(0, len(tail) - len(value)) :])
        return JSON.after(BEGIN, value, tags)._replace(tail=tail)

    def ends(self, token: bytes) -> bool:
        return JSON.ends(token)


class _NestedTags:
    """As `_Tags`, without JSON. The nesting of tags is not read."""

    begin = BETWEEN

    def __init__(self, form: CallForm, codec: NestedTags) -> None:
        self._namespace = units(form.marks.encode(codec.namespace), form.marks)
        namespace = re.escape(self._namespace)
        self._value = re.compile(rb"%b<([^/>][^>]*)>([^<>]*)" % namespace)

    def after(self, place: Place, text: bytes, tags: Tags) -> Place:
        seen = place.tail + text
        at = seen.rfind(self._namespace)
        if at < 0 and not place.between and not (b"<" in text or b">" in text):
            return place._replace(word=_word(place.word + text), tail=self._tail(seen))
        head = seen[at:] if at >= 0 else place.head + text if place.head else b""
        value = self._value.fullmatch(head)
        if value is not None:
            if tags.get(value[1]) == "json":
                return Place(word=_word(value[2]), tail=self._tail(seen))
            return BETWEEN._replace(raw=True, tail=self._tail(value[2]))
        is_tag = b">" not in head[len(self._namespace) :] and len(head) <= MAX_NAME
        return BETWEEN._replace(head=head if is_tag else b"", tail=self._tail(seen))

    def _tail(self, seen: bytes) -> bytes:
        return seen[max(0, len(seen) - len(self._namespace) + 1) :]

    def ends(self, token: bytes) -> bool:
        return False


PlaceReader = _QuotedStrings | _Tags | _NestedTags


def reader_of(form: CallForm) -> PlaceReader:
    """Return the reader of a dialect's calls."""
    match form.codec:
        case FlatTags() as codec:
            return _Tags(form, codec)
        case NestedTags() as codec:
            return _NestedTags(form, codec)
        case GemmaValues(quote=quote):
            mark = units(form.marks.encode(quote), form.marks)
            return _QuotedStrings((mark,), escapes=False)
        case Pythonic():
            return _QuotedStrings((b'"', b"'"), escapes=True)
        case _:
            return JSON


def _word(text: bytes) -> bytes:
    return text[len(text.rstrip(_WORD)) :]


def _depth(text: bytes) -> int:
    """Return the number of brackets that are open. Those of the units of marks are closed."""
    opened = text.count(b"[") + text.count(b"{")
    return opened - text.count(b"]") - text.count(b"}")
