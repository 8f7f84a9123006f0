"""The place at which the text of a call ends, as far as it matters for bounds on values: inside a
string or outside, and how deep inside objects and arrays.

Each codec has a reader. Texts are units (tokens/units.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from toolgate_core.dialects.codecs import GemmaValues, NestedTags, Pythonic, Tagged

from ...grammars.codecs.rules import OTHERS, TagText
from ...tokens.call_form import CallForm
from ...tokens.units import units


class Place(NamedTuple):
    quote: bytes = b""
    """The mark of the string in which the text ends; empty outside of strings."""
    depth: int = 0
    end: int = 0
    """Where in the text the next reading goes on."""


BEGIN = Place()


class PlaceReader(Protocol):
    def place(
        self, text: bytes, tags: Mapping[bytes, TagText], before: Place = BEGIN
    ) -> Place | None:
        """The place at the end of a text; None if it is not inside a value, or inside raw text.
        `tags`: what the text in tags is, by name. `before`: the place at the end of a beginning of
        the text."""
        ...

    def ends(self, token: bytes) -> bool:
        """Whether a token may end a string and then open a value."""
        ...


class _Quoted:
    """Strings in quotation marks."""

    def __init__(self, marks: tuple[bytes, ...], *, escapes: bool) -> None:
        self._marks = marks
        self._escapes = escapes
        char = rb"[^%b\\]|\\." if escapes else rb"(?!%b)."
        ways = (b"%b(?:%b)*(%b)?" % (m, char % m, m) for m in map(re.escape, marks))
        self._strings = re.compile(b"|".join(ways), re.DOTALL)
        self._ending = re.compile(b"(?:%b).*[\\[{]" % b"|".join(map(re.escape, marks)), re.DOTALL)

    def place(
        self, text: bytes, tags: Mapping[bytes, TagText], before: Place = BEGIN
    ) -> Place | None:
        quote = b""

        def outside(found: re.Match[bytes]) -> bytes:
            nonlocal quote
            closed = found.lastindex is not None
            quote = b"" if closed else next(m for m in self._marks if found[0].startswith(m))
            return b""

        end = len(text) - self._begun(text)
        rest = self._strings.sub(outside, before.quote + text[before.end : end])
        return Place(quote, before.depth + _depth(rest), max(before.end, end))

    def _begun(self, text: bytes) -> int:
        """The length of an escape, or of a mark, that may have begun at the end of a text."""
        if self._escapes:
            return (len(text) - len(text.rstrip(b"\\"))) % 2
        longest = max(map(len, self._marks)) - 1
        begun = (n for n in range(longest, 0, -1) if text.endswith(self._marks[0][:n]))
        return next(begun, 0)

    def ends(self, token: bytes) -> bool:
        return self._ending.search(token) is not None


JSON = _Quoted((b'"',), escapes=True)


class _Tags:
    """JSON or raw strings between tags."""

    def __init__(self, form: CallForm, codec: Tagged) -> None:
        def encoded(text: str) -> bytes:
            return units(form.marks.encode(text), form.marks)

        after_key, _, after_type = codec.middle.partition("{type}")
        self._begin, self._after_key = encoded(codec.begin), encoded(after_key)
        self._after_type, self._end = encoded(after_type), encoded(codec.end)
        self._string = dict(codec.types).get("string", "").encode()

    def place(
        self, text: bytes, tags: Mapping[bytes, TagText], before: Place = BEGIN
    ) -> Place | None:
        argument = text.rpartition(self._end)[2].partition(self._begin)[2]
        key, _, value = argument.partition(self._after_key)
        kind = tags.get(key) or tags.get(OTHERS, "text")
        if self._after_type:
            kind_written, _, value = value.partition(self._after_type)
            kind = "text" if kind_written == self._string else "json"
        if not value or kind == "text" or (kind == "either" and value[:1] not in (b"{", b"[")):
            return None
        return JSON.place(value, tags)

    def ends(self, token: bytes) -> bool:
        return JSON.ends(token)


class _NestedTags:
    """As `_Tags`, without JSON. The nesting of tags is not read."""

    def __init__(self, form: CallForm, codec: NestedTags) -> None:
        namespace = re.escape(units(form.marks.encode(codec.namespace), form.marks))
        self._value = re.compile(rb".*%b<([^/>][^>]*)>[^<>]*\Z" % namespace, re.DOTALL)

    def place(
        self, text: bytes, tags: Mapping[bytes, TagText], before: Place = BEGIN
    ) -> Place | None:
        found = self._value.match(text)
        is_json = found is not None and tags.get(found[1]) == "json"
        return Place() if is_json else None

    def ends(self, token: bytes) -> bool:
        return False


def reader_of(form: CallForm) -> PlaceReader:
    """The reader of a dialect's calls."""
    match form.codec:
        case Tagged() as codec:
            return _Tags(form, codec)
        case NestedTags() as codec:
            return _NestedTags(form, codec)
        case GemmaValues(quote=quote):
            mark = units(form.marks.encode(quote), form.marks)
            return _Quoted((mark,), escapes=False)
        case Pythonic():
            return _Quoted((b'"', b"'"), escapes=True)
        case _:
            return JSON


def _depth(text: bytes) -> int:
    """The number of brackets that are open. Those of the units of marks are closed."""
    opened = text.count(b"[") + text.count(b"{")
    return opened - text.count(b"]") - text.count(b"}")
