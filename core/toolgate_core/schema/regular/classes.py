"""Single characters and classes of patterns, and the escapes that stand for them."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from functools import lru_cache

from .characters import DIGIT, SPACE, WORD, Ranges, is_known, other_than, ranges_of
from .syntax import Characters, Unsupported

_BLOCKS = (
    *((0x0, 0x2FFF), (0xA640, 0xABFF), (0xFB00, 0xFB1F), (0xFF00, 0xFF5F), (0x10400, 0x105FF)),
    *((0x10C80, 0x10D9F), (0x118A0, 0x118DF), (0x16E40, 0x16EFF), (0x1E900, 0x1E943)),
)
"""No other characters have a case."""


def letters_in(ranges: Ranges, *, unicode: bool) -> int:
    """The number of characters of which there are variants."""
    codes, _ = _folding(unicode)
    return sum(bisect_right(codes, high) - bisect_left(codes, low) for low, high in ranges)


def folded(ranges: Ranges, *, unicode: bool) -> Ranges:
    """The characters that match one of these without regard to case. `unicode`: with the flag `u`,
    that is by Unicode's simple case folding, otherwise by capital letters."""
    codes, others = _folding(unicode)
    more = [
        (other, other)
        for low, high in ranges
        for at in range(bisect_left(codes, low), bisect_right(codes, high))
        for other in others[at]
    ]
    return ranges_of([*ranges, *more])


@lru_cache(maxsize=2)
def _folding(unicode: bool) -> tuple[list[int], list[list[int]]]:
    """The characters that match others, in order, and for each of them all that match it."""
    groups: dict[str, list[int]] = defaultdict(list)
    for low, high in _BLOCKS:
        for code in range(low, high + 1):
            character = chr(code)
            groups[_simple(character) if unicode else _capital(character)].append(code)
    others = {code: group for group in groups.values() if len(group) > 1 for code in group}
    codes = sorted(others)
    return codes, [others[code] for code in codes]


def _simple(character: str) -> str:
    for made in (character.casefold(), character.lower()):
        if len(made) == 1:
            return made
    return character


def _capital(character: str) -> str:
    made = character.upper()
    is_foreign = not character.isascii() and made.isascii()
    return character if len(made) != 1 or is_foreign else made


class Cursor:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.at = 0

    def peek(self, ahead: int = 0) -> str:
        return self._pattern[self.at + ahead : self.at + ahead + 1]

    def next(self) -> str:
        self.at += 1
        if self.at > len(self._pattern):
            raise self.error("it ends too early")
        return self._pattern[self.at - 1]

    def skip(self, text: str) -> bool:
        if not self._pattern.startswith(text, self.at):
            return False
        self.at += len(text)
        return True

    def is_at(self, expected: re.Pattern[str], offset: int = 0) -> bool:
        return expected.match(self._pattern, self.at + offset) is not None

    def take(self, expected: re.Pattern[str]) -> re.Match[str] | None:
        found = expected.match(self._pattern, self.at)
        if found is not None:
            self.at = found.end()
        return found

    def error(self, reason: str) -> Unsupported:
        return Unsupported(f"it is no regular expression of JavaScript ({reason})")


MAX_LETTERS = 20_000
"""Maximum number of letters in all classes without regard to case. Each takes a microsecond."""

_CLASSES = {"d": DIGIT, "w": WORD, "s": SPACE}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_SYNTAX = frozenset("^$\\.*+?()[]{}|/")
_PROPERTY = re.compile(r"\{\w+(?:=\w+)?\}", re.ASCII)
_OCTAL = re.compile(r"[0-3][0-7]{0,2}|[4-7][0-7]?", re.ASCII)
_HEX = {"x": re.compile(r"[0-9A-Fa-f]{2}"), "u": re.compile(r"[0-9A-Fa-f]{4}")}
_CODE_POINT = re.compile(r"\{([0-9A-Fa-f]{1,8})\}")
_LOW_HALF = re.compile(r"\\u([dD][c-fC-F][0-9A-Fa-f]{2})")


class CharacterReader:
    def __init__(self, cursor: Cursor, *, unicode: bool) -> None:
        self._cursor = cursor
        self._unicode = unicode
        self.ignores_case = False
        self._letters = 0
        """How many have been read without regard to case."""

    def one(self, code: int) -> Characters:
        return self.characters(ranges_of([(code, code)]))

    def characters(
        self,
        ranges: Ranges,
        properties: frozenset[str] = frozenset(),
        *,
        excluded: bool = False,
    ) -> Characters:
        """These characters, or all others, with regard to the flag `i`."""
        if self.ignores_case:
            if properties:
                raise Unsupported("it has a property of characters without regard to case")
            self._letters += letters_in(ranges, unicode=self._unicode)
            if self._letters > MAX_LETTERS:
                raise Unsupported("it has too many classes without regard to case")
            ranges = folded(ranges, unicode=self._unicode)
        if properties:
            return Characters(ranges, properties, excluded)
        return Characters(other_than(ranges) if excluded else ranges)

    def _word(self) -> Ranges:
        is_folded = self._unicode and self.ignores_case
        return folded(WORD, unicode=True) if is_folded else WORD

    def set_of(self, kind: str) -> Characters | None:
        r"""The characters of `\d`, `\p{…}` and the like; None if this is none of these."""
        if kind.lower() in _CLASSES:
            ranges = self._word() if kind.lower() == "w" else _CLASSES[kind.lower()]
            return Characters(ranges if kind.islower() else other_than(ranges))
        if kind not in "pP":
            return None
        found = self._cursor.take(_PROPERTY)
        if found is None or not is_known(f"{kind}{found[0]}"):
            if self._unicode or found is not None:
                raise self._cursor.error("a property of characters that is not known")
            return None
        return Characters((), frozenset([f"{kind}{found[0]}"]))

    def character_of(self, kind: str, *, in_class: bool) -> int:
        """The character of an escape sequence that begins with `kind`."""
        if kind in _CONTROLS:
            return ord(_CONTROLS[kind])
        if kind in "01234567" and not (self._unicode and kind != "0"):
            return self._octal()
        if kind == "c":
            return self._control(in_class)
        if kind in _HEX:
            found = self._hexadecimal(kind)
            if found is not None:
                return found
        if self._unicode and kind not in _SYNTAX and not (in_class and kind == "-"):
            raise self._cursor.error(f"the escape \\{kind}")
        return ord(kind)

    def _octal(self) -> int:
        self._cursor.at -= 1
        found = self._cursor.take(_OCTAL)
        assert found is not None
        if self._unicode and (len(found[0]) > 1 or self._cursor.peek().isdecimal()):
            raise self._cursor.error("an octal escape")
        return int(found[0], 8)

    def _control(self, in_class: bool) -> int:
        letter = self._cursor.peek()
        is_more = in_class and not self._unicode and (letter.isdecimal() or letter == "_")
        if letter.isascii() and (letter.isalpha() or is_more):
            return ord(self._cursor.next()) % 32
        if self._unicode:
            raise self._cursor.error("the escape \\c")
        self._cursor.at -= 1  # the backslash itself, and then a c
        return ord("\\")

    def _hexadecimal(self, kind: str) -> int | None:
        """The character of `\\x` or `\\u`; None if no number follows."""
        if kind == "u" and (point := self._cursor.take(_CODE_POINT)) is not None:
            code = int(point[1], 16)
            if code > 0x10FFFF:
                raise self._cursor.error("a code point beyond Unicode")
            return code
        found = self._cursor.take(_HEX[kind])
        if found is None:
            return None
        code = int(found[0], 16)
        if 0xD800 <= code <= 0xDBFF and (low := self._cursor.take(_LOW_HALF)) is not None:
            return 0x10000 + (code - 0xD800) * 0x400 + int(low[1], 16) - 0xDC00
        return code

    def class_of(self) -> Characters:
        excluded = self._cursor.skip("^")
        ranges: list[tuple[int, int]] = []
        properties = frozenset[str]()
        while not self._cursor.skip("]"):
            members = [self._member()]
            if self._cursor.peek() == "-" and self._cursor.peek(1) not in ("]", ""):
                self._cursor.at += 1
                members.append(self._member())
            match members:
                case [int(low), int(high)]:
                    if low > high:
                        raise self._cursor.error("a range of characters that is empty")
                    ranges.append((low, high))
                    continue
                case [_, _]:
                    if self._unicode:
                        raise self._cursor.error("a range between classes of characters")
                    members.append(ord("-"))
            for each in members:
                if isinstance(each, int):
                    ranges.append((each, each))
                else:
                    ranges += each.ranges
                    properties |= each.properties
        return self.characters(ranges_of(ranges), properties, excluded=excluded)

    def _member(self) -> int | Characters:
        character = self._cursor.next()
        if character != "\\":
            return ord(character)
        kind = self._cursor.next()
        if kind == "b":
            return ord("\b")
        found = self.set_of(kind)
        return self.character_of(kind, in_class=True) if found is None else found
