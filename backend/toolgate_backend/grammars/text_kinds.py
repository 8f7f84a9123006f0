"""The kinds of strings: which text and tokens go on inside one, with its state unchanged.

A text inside a string is *whole* if it consists of complete characters and escapes, and its end
cannot be a part of the mark that ends the string. After each whole text the same may follow.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from toolgate_core.schema.known_strings import KnownTexts, known_texts

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
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROLS = {"n": "\n", "r": "\r", "b": "\b", "t": "\t", "f": "\f"}


def _unescaped(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)) if escape[1] else _CONTROLS.get(escape[2], escape[2])


@dataclass(frozen=True)
class QuotedText:
    """A string between two marks of one byte, with escapes."""

    quote: bytes
    """The mark in which the string is."""
    plain: bytes
    """A regular expression of the ASCII characters that are no escape."""
    escaped: bytes
    """A regular expression of what may follow a backslash."""
    escape_begun: bytes
    """A regular expression of the beginnings of `escaped`, the empty one included."""

    @cached_property
    def _content(self) -> re.Pattern[bytes]:
        return re.compile(rb"(?:%b|%b|\\(?:%b))*" % (self.plain, _HIGH, self.escaped))

    @cached_property
    def _begun(self) -> re.Pattern[bytes]:
        return re.compile(rb"%b|\\(?:%b)" % (_HIGH_BEGUN, self.escape_begun))

    def begun(self, text: bytes) -> bytes | None:
        """Return what has begun at the end of `text`, which is read from a whole place: part of a
        character, of an escape or of the mark; empty if the text is whole. None if the text does
        not stay inside the string."""
        rest = text[self._end(text) :]
        return rest if not rest or self._begun.fullmatch(rest) else None

    def content(self, text: bytes) -> int | None:
        """Return the length of the whole text at the beginning of `text`, before the mark that ends
        the string; None if there is no such mark."""
        end = self._end(text)
        return end if text.startswith(self.quote, end) else None

    def characters(self, text: bytes) -> str:
        """Return the characters of a whole text."""
        return _ESCAPE.sub(_unescaped, text.decode())

    def _end(self, text: bytes) -> int:
        content = self._content.match(text)
        assert content is not None
        return content.end()


MAX_COUNTED = 100
"""Length in characters up to which the masks count a raw text. llguidance's lexer has a state for
each length and each beginning of the end mark: beyond a few hundred it gives up in the middle of a
text, and then for every request with the grammar."""


@dataclass(frozen=True)
class RawText:
    """Text without escapes up to a mark. The methods are those of QuotedText."""

    quote: bytes
    """The mark in which the string is; empty if it is between tags."""
    closes: tuple[bytes, ...]
    """The texts that the string cannot contain."""
    ends: tuple[bytes, ...]
    """Texts that the string may contain, but after which its end may come."""
    end: bytes
    """What ends the string."""

    @cached_property
    def _beginnings(self) -> frozenset[bytes]:
        """The texts in which an end may have begun."""
        beginnings = {each[:n] for each in self.closes for n in range(1, len(each))}
        return frozenset(
            beginnings.union(each[:n] for each in self.ends for n in range(1, len(each) + 1))
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
        characters = _CHARACTERS.match(text)
        assert characters is not None
        begun = text[characters.end() :]
        if begun and not _CHARACTER_BEGUN.fullmatch(begun):
            return None
        return max(begun, self.ending(text), key=len)

    def content(self, text: bytes) -> int | None:
        end = text.find(self.end)
        return None if end < 0 else end

    def characters(self, text: bytes) -> str:
        return text.decode()


TextKind = QuotedText | RawText
"""Compared by value."""
JSON_IN_XGRAMMAR = QuotedText(
    b'"',
    rb"[\x20\x21\x23-\x5b\x5d-\x7f]",
    rb'["\\/bfnrt]|u[0-9a-fA-F]{4}',
    rb"(?:u[0-9a-fA-F]{0,3})?",
)
"""xgrammar's own strings of JSON."""
JSON_IN_LLGUIDANCE = QuotedText(
    b'"',
    rb"[\x20\x21\x23-\x5b\x5d-\x7e]",
    rb'["\\bfnrt]|u(?:00[01][0-9a-fA-F]|007[fF])',
    rb"(?:u(?:0(?:0(?:[01]|7)?)?)?)?",
)
"""llguidance's: `\\u` for control characters only."""
JSON_KINDS = frozenset({JSON_IN_XGRAMMAR, JSON_IN_LLGUIDANCE})
PYTHON = (
    QuotedText(b"'", rb"[\x20-\x26\x28-\x5b\x5d-\x7f]", rb"[nrbtf\\']", b""),
    QuotedText(b'"', rb"[\x20\x21\x23-\x5b\x5d-\x7e]", rb'[nrbtf\\"]', b""),
)
"""The strings of Python (codecs/typed_values.py), in either quotation mark."""


def raw_text(end: bytes, close: bytes, *, ends_with_mark: bool) -> RawText:
    """Return the kind of the strings of `codecs/raw_strings.py`. `end`: the text of the end before
    its first mark. `close`: what looks like the end in text."""
    if ends_with_mark:
        return RawText(b"", (close,), (end,) if end else (), ESCAPE)
    return RawText(b"", tuple(dict.fromkeys((end, close))), (), end)


class FreeTexts(NamedTuple):
    """What is known of the texts of a grammar's values."""

    strings: tuple[TextKind, ...] = ()
    """The kinds of strings, if all of them are known."""
    known: KnownTexts = KnownTexts()


NOT_FREE = FreeTexts()


def free_texts(schema: Any, kinds: tuple[TextKind, ...], **names: bool) -> FreeTexts:
    """Return what is known of the values of a schema whose strings are of these kinds. `names`: as
    for `known_texts`."""
    counted = MAX_COUNTED if any(isinstance(kind, RawText) for kind in kinds) else None
    known = known_texts(schema, counted, **names) if kinds else None
    return NOT_FREE if known is None else FreeTexts(kinds, known)


MAX_CHARACTERS = 255


class PlainTable:
    """The tokens that go on with a kind of string."""

    def __init__(self, kind: TextKind, token_bytes: Sequence[bytes], allowed: BitmaskRow) -> None:
        """`allowed`: the tokens that the text of a grammar may have. Reads the whole vocabulary."""
        self.kind = kind
        may = np.unpackbits(allowed.view(np.uint8), bitorder="little")
        counts = bytearray(len(may))
        for token in np.flatnonzero(may[: len(token_bytes)]).tolist():
            text = token_bytes[token]
            if kind.begun(text) == b"" and (count := len(kind.characters(text))) <= MAX_CHARACTERS:
                counts[token] = count
        self.counts = bytes(counts)
        """By token id: its number of characters, if after it the text is whole; otherwise 0."""
        self.longest = max(counts)
        self._plain: dict[int, BitmaskRow] = {}

    def goes_on(self, row: BitmaskRow, most: int) -> bool:
        """Return whether a mask allows all of these tokens that have at most `most` characters."""
        plain = self._plain.get(min(most, self.longest))
        if plain is None:
            counts = np.frombuffer(self.counts, dtype=np.uint8)
            bits = np.packbits((counts > 0) & (counts <= most), bitorder="little")
            plain = self._plain[min(most, self.longest)] = bits.view(np.int32)
        return bool((row & plain == plain).all())
