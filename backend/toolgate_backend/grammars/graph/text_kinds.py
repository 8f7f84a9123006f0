"""The kinds of free strings: which text goes on inside one, and leaves its state unchanged.

A text inside a string is *whole* if it consists of complete characters and escapes, and its end
can't be a part of the mark that ends the string. After each whole text the same may follow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

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


class TextKind(Protocol):
    """Immutable, and compared by value."""

    def begun(self, text: bytes) -> bytes | None:
        """What has begun at the end of `text`, which is read from a whole place: part of a
        character, of an escape or of the mark; empty if the text is whole. None if the text does
        not stay inside the string."""
        ...

    def content(self, text: bytes) -> int | None:
        """The length of the whole text at the beginning of `text`, before the mark that ends the
        string; None if there is no such mark."""
        ...

    def opening(self, text: bytes) -> int | None:
        """Where the content of a string begins that has no end in `text`, which begins outside of
        strings; None if there is none."""
        ...


@dataclass(frozen=True)
class QuotedText:
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
        return re.compile(rb"(?:%b|%b|\\(?:%b))*+" % (self.plain, _HIGH, self.escaped))

    @cached_property
    def _begun(self) -> re.Pattern[bytes]:
        return re.compile(rb"%b|\\(?:%b)" % (_HIGH_BEGUN, self.escape_begun))

    @cached_property
    def _strings(self) -> re.Pattern[bytes]:
        marks = [re.escape(self.quotes[at : at + 1]) for at in range(len(self.quotes))]
        ways = (rb"%b(?:[^%b\\]|\\.)*+(?:%b|\Z)" % (m, m, m) for m in marks)
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
