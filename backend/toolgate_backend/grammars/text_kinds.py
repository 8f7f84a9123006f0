"""The kinds of free strings: which text and tokens go on inside one, with its state unchanged.

A text inside a string is *whole* if it consists of complete characters and escapes, and its end
can't be a part of the mark that ends the string. After each whole text the same may follow.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from ..tokens.masks import BitmaskRow
from ..tokens.units import ESCAPE

_HIGH = (
    rb"[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|\xed[\x80-\x9f][\x80-\xbf]"
    rb"|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xf0[\x90-\xbf][\x80-\xbf]{2}"
    rb"|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}"
)
"""Characters of UTF-8 beyond ASCII."""
_HIGH_BEGUN = (
    rb"[\xc2-\xdf]|\xe0(?:[\xa0-\xbf]?)|\xed(?:[\x80-\x9f]?)|[\xe1-\xec\xee\xef][\x80-\xbf]?"
    rb"|\xf0(?:[\x90-\xbf][\x80-\xbf]?)?|[\xf1-\xf3][\x80-\xbf]{0,2}"
    rb"|\xf4(?:[\x80-\x8f][\x80-\xbf]?)?"
)


_CHARACTERS = re.compile(rb"(?:[\x00-\x7f]|%b)*" % _HIGH)
_CHARACTER_BEGUN = re.compile(_HIGH_BEGUN)


class TextKind(Protocol):
    """Immutable, and compared by value."""

    quote: bytes
    """The mark in which the string is; empty if it is raw text between tags."""

    def begun(self, text: bytes) -> bytes | None:
        """Return what has begun at the end of `text`, which is read from a whole place: part of a
        character, of an escape or of the mark; empty if the text is whole. None if the text does
        not stay inside the string."""
        ...

    def content(self, text: bytes) -> int | None:
        """Return the length of the whole text at the beginning of `text`, before the mark that ends
        the string; None if there is no such mark."""
        ...

    def opening(self, text: bytes) -> int | None:
        """Where the content of a string begins that has no end in `text`, which begins outside of
        strings; None if there is none."""
        ...


@dataclass(frozen=True)
class QuotedText(TextKind):
    """A string between two marks of one byte, with escapes."""

    quote: bytes
    plain: bytes
    """A regular expression of the ASCII characters that are no escape."""
    escaped: bytes
    """A regular expression of what may follow a backslash."""
    escape_begun: bytes
    """A regular expression of the beginnings of `escaped`, the empty one included."""
    quotes: bytes
    """The marks of all strings of the form."""

    @cached_property
    def _content(self) -> re.Pattern[bytes]:
        return re.compile(rb"(?:%b|%b|\\(?:%b))*" % (self.plain, _HIGH, self.escaped))

    @cached_property
    def _begun(self) -> re.Pattern[bytes]:
        return re.compile(rb"%b|\\(?:%b)" % (_HIGH_BEGUN, self.escape_begun))

    @cached_property
    def _strings(self) -> re.Pattern[bytes]:
        marks = [re.escape(self.quotes[at : at + 1]) for at in range(len(self.quotes))]
        ways = (rb"%b(?:[^%b\\]|\\.)*(?:%b|\Z)" % (m, m, m) for m in marks)
        return re.compile(b"|".join(ways), re.DOTALL)

    def begun(self, text: bytes) -> bytes | None:
        rest = text[self._end(text) :]
        return rest if not rest or self._begun.fullmatch(rest) else None

    def content(self, text: bytes) -> int | None:
        end = self._end(text)
        return end if text.startswith(self.quote, end) else None

    def opening(self, text: bytes) -> int | None:
        last = next(iter(reversed([*self._strings.finditer(text)])), None)
        if last is None or last.end() < len(text) or not last[0].startswith(self.quote):
            return None
        inside = last[0][1:]
        closed = self.content(inside) is not None or self.begun(inside) is None
        return None if closed else last.start() + 1

    def _end(self, text: bytes) -> int:
        found = self._content.match(text)
        assert found is not None
        return found.end()


@dataclass(frozen=True)
class RawText(TextKind):
    """Text without escapes up to a mark."""

    quote: bytes
    closes: tuple[bytes, ...]
    """The texts that the string can't contain."""
    ends: tuple[bytes, ...]
    """Texts that the string may contain, but after which its end may come."""
    end: bytes
    """What ends the string."""

    @cached_property
    def _beginnings(self) -> frozenset[bytes]:
        """The texts in which an end may have begun."""
        found = {each[:n] for each in self.closes for n in range(1, len(each))}
        return frozenset(
            found.union(each[:n] for each in self.ends for n in range(1, len(each) + 1))
        )

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._beginnings), default=0)

    def ending(self, text: bytes) -> bytes:
        """Return the longest end of a text in which the end of the string may have begun."""
        longest = range(min(len(text), self._longest), 0, -1)
        return next((text[-n:] for n in longest if text[-n:] in self._beginnings), b"")

    def begun(self, text: bytes) -> bytes | None:
        if any(each in text for each in self.closes):
            return None
        found = _CHARACTERS.match(text)
        assert found is not None
        begun = text[found.end() :]
        if begun and not _CHARACTER_BEGUN.fullmatch(begun):
            return None
        return max(begun, self.ending(text), key=len)

    def content(self, text: bytes) -> int | None:
        end = text.find(self.end)
        return None if end < 0 else end

    def opening(self, text: bytes) -> int | None:
        return None


JSON_IN_XGRAMMAR = QuotedText(
    b'"',
    rb"[\x20\x21\x23-\x5b\x5d-\x7f]",
    rb'["\\/bfnrt]|u[0-9a-fA-F]{4}',
    rb"(?:u[0-9a-fA-F]{0,3})?",
    b'"',
)
"""xgrammar's own strings of JSON."""
JSON_IN_LLGUIDANCE = QuotedText(
    b'"',
    rb"[\x20\x21\x23-\x5b\x5d-\x7e]",
    rb'["\\bfnrt]|u(?:00[01][0-9a-fA-F]|007[fF])',
    rb"(?:u(?:0(?:0(?:[01]|7)?)?)?)?",
    b'"',
)
"""llguidance's: `\\u` for control characters only."""
JSON_KINDS = frozenset({JSON_IN_XGRAMMAR, JSON_IN_LLGUIDANCE})
PYTHON = (
    QuotedText(b"'", rb"[\x20-\x26\x28-\x5b\x5d-\x7f]", rb"[nrbtf\\']", b"", b"'\""),
    QuotedText(b'"', rb"[\x20\x21\x23-\x5b\x5d-\x7e]", rb'[nrbtf\\"]', b"", b"'\""),
)
"""The strings of Python (codecs/typed_values.py), in either quotation mark."""


def raw_text(end: bytes, close: bytes, *, ends_with_mark: bool) -> RawText:
    """Return the kind of the strings of `codecs/raw_strings.py`. `end`: the text of the end before
    its first mark. `close`: what looks like the end in text."""
    if ends_with_mark:
        return RawText(b"", (close,), (end,) if end else (), ESCAPE)
    return RawText(b"", tuple(dict.fromkeys((end, close))), (), end)


class PlainTable:
    """The tokens that go on with a kind of free string."""

    def __init__(self, kind: TextKind, token_bytes: Sequence[bytes], allowed: BitmaskRow) -> None:
        """`allowed`: the tokens that the text of a grammar may have. Reads the whole vocabulary."""
        self.kind = kind
        self.sample = -1
        """One of these tokens, of one letter."""
        ends = np.zeros(len(allowed) * 32, dtype=np.uint8)
        may = np.unpackbits(allowed.view(np.uint8), bitorder="little")
        plain = np.zeros(len(may), dtype=np.uint8)
        for token in np.flatnonzero(may[: len(token_bytes)]).tolist():
            text = token_bytes[token]
            plain[token] = bool(text) and kind.begun(text) == b""
            ends[token] = text.startswith(kind.quote)
            if plain[token] and len(text) == 1 and text.isalpha():
                self.sample = token
        self.loop = plain.tobytes()
        """One byte for each token id."""
        self.words: BitmaskRow = np.packbits(plain, bitorder="little").view(np.int32)
        self._ends: BitmaskRow = np.packbits(ends, bitorder="little").view(np.int32)

    def may_end(self, row: BitmaskRow) -> bool:
        """Return whether a mask allows the end of the string. Only those of JSON may have to go
        on."""
        return self.kind not in JSON_KINDS or bool((row & self._ends).any())

    def is_inside(self, row: BitmaskRow) -> bool:
        """Return whether a mask allows all of these tokens."""
        return bool((row & self.words == self.words).all())
