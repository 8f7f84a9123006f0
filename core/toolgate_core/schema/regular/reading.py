r"""The patterns of JSON Schema, read as JavaScript reads them (ECMA-262, §22.2.1 and annex B).

JSON Schema asks for the flag `u`; where a pattern is an error with it, it is read without. Strings
consist of characters in both cases, not of halves of surrogate pairs.

What no JavaScript with `u` accepts and everybody else means in the same way is read in that way:
`(?i)` for the rest of a group, `\A`, `\z`, `\Z`, `(?P<name>…)`, and `\p{…}` or `\u{…}` beside an
escape that is an error with `u`.
"""

from __future__ import annotations

import re
from functools import lru_cache

from .parts import (
    ANY,
    DIGIT,
    EMPTY,
    LINE_END,
    SPACE,
    WORD,
    Alternatives,
    Anchor,
    BackReference,
    Boundary,
    Characters,
    Group,
    Look,
    Part,
    Ranges,
    Repetition,
    Sequence,
    Unsupported,
    every_part,
    folded,
    is_always_empty,
    is_known,
    letters_in,
    other_than,
    ranges_of,
    with_inside,
)

MAX_LENGTH = 20_000
"""Maximum length of a pattern, in characters."""
MAX_DEPTH = 50
"""Maximum nesting of groups."""
MAX_COUNT_DIGITS = 9

_COUNTS = re.compile(r"\{(\d+)(,?)(\d*)\}", re.ASCII)
_GROUPS = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]?|\((?!\?)|\(\?P?<(?![=!])([^>]*)>", re.DOTALL)
_FLAGS = re.compile(r"\?([ims]*)(?:-([ims]*))?:")
_FLAGS_OF_REST = re.compile(r"\?([imsu]+)(?:-([ims]+))?\)")
_ASSERTION = re.compile(r"\^|\$|\\[bB]|\(\?<?[=!]")
_DIGITS = re.compile(r"\d+", re.ASCII)
_NAME = re.compile(r"([\w$]+)>")
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


@lru_cache(maxsize=4_096)
def parse(pattern: str) -> Part:
    """Raise Unsupported."""
    if len(pattern) > MAX_LENGTH:
        raise Unsupported(f"it has more than {MAX_LENGTH:,} characters")
    try:
        return _Reader(pattern, unicode=True).whole()
    except Unsupported:
        return _Reader(pattern, unicode=False).whole()


class _Reader:
    def __init__(self, pattern: str, *, unicode: bool) -> None:
        self._cursor = _Cursor(pattern)
        self._unicode = unicode
        self._flags = frozenset[str]()
        self._letters = 0
        """How many have been read without regard to case."""
        groups = [group for group in _GROUPS.finditer(pattern) if group[0].startswith("(")]
        self._names = [group[1] for group in groups]

    def whole(self) -> Part:
        part = self._alternatives(0)
        if self._cursor.peek():
            raise self._cursor.error("an unmatched )")
        if any(isinstance(each, BackReference) for each in every_part(part)):
            return part
        return _simplified(part)

    # --- groups and sequences ---

    def _alternatives(self, depth: int) -> Part:
        if depth > MAX_DEPTH:
            raise Unsupported(f"its groups are nested deeper than {MAX_DEPTH} levels")
        options = [self._sequence(depth)]
        while self._cursor.skip("|"):
            options.append(self._sequence(depth))
        return options[0] if len(options) == 1 else Alternatives(tuple(options))

    def _sequence(self, depth: int) -> Part:
        parts: list[Part] = []
        while self._cursor.peek() not in ("", "|", ")"):
            is_assertion = self._cursor.is_at(_ASSERTION)
            part = self._quantified(self._part(depth), is_assertion=is_assertion)
            parts += [part] if part != EMPTY else []
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _part(self, depth: int) -> Part:
        character = self._cursor.next()
        match character:
            case "(":
                return EMPTY if self._flags_of_rest() else self._group(depth)
            case "[":
                return self._class_of()
            case "\\":
                return self._escape()
            case "^" | "$":
                return self._anchor(end=character == "$")
            case ".":
                return Characters(ANY if "s" in self._flags else other_than(LINE_END))
            case "*" | "+" | "?":
                raise self._cursor.error(f"nothing before {character}")
            case "{" | "}" | "]" if self._unicode:
                raise self._cursor.error(f"a single {character}")
            case "{" if self._cursor.is_at(_COUNTS, -1):
                raise self._cursor.error("nothing before {")
        return self._one(ord(character))

    def _anchor(self, *, end: bool) -> Part:
        if "m" not in self._flags:
            return Anchor(end)
        return Alternatives((Anchor(end), Look(Characters(LINE_END), False, behind=not end)))

    def _group(self, depth: int) -> Part:
        flags = self._flags
        part = self._group_inside(depth)
        self._flags = flags
        return part

    def _group_inside(self, depth: int) -> Part:
        for mark in ("?=", "?!", "?<=", "?<!"):
            if self._cursor.skip(mark):
                inside = self._closed(depth)
                return Look(inside, mark.endswith("!"), behind="<" in mark)
        is_named = self._cursor.skip("?<") or (not self._unicode and self._cursor.skip("?P<"))
        if is_named:
            name = self._cursor.take(_NAME)
            if name is None or not name[1].replace("$", "_").isidentifier():
                raise self._cursor.error("a name of a group that is none")
        elif self._cursor.peek() == "?":
            return self._with_flags(depth)
        return Group(self._closed(depth))

    def _closed(self, depth: int) -> Part:
        part = self._alternatives(depth + 1)
        if not self._cursor.skip(")"):
            raise self._cursor.error("a group without an end")
        return part

    def _with_flags(self, depth: int) -> Part:
        flags = self._cursor.take(_FLAGS)
        if flags is None:
            raise self._cursor.error("an unknown kind of group")
        on, off = flags[1], flags[2] or ""
        if len({*on, *off}) < len(on + off) or (flags[2] is not None and not on + off):
            raise self._cursor.error("flags that contradict each other")
        self._flags = (self._flags | {*on}) - {*off}
        return self._closed(depth)

    def _flags_of_rest(self) -> bool:
        """Read `(?i)`, which other engines have up to the end of the group around it."""
        flags = None if self._unicode else self._cursor.take(_FLAGS_OF_REST)
        if flags is None:
            return False
        self._flags = (self._flags | {*flags[1]}) - {*(flags[2] or "")}
        return True

    # --- escapes ---

    def _escape(self) -> Part:
        kind = self._cursor.next()
        match kind:
            case "b" | "B":
                return Boundary(kind == "B")
            case "A" | "z" | "Z" if not self._unicode:
                return Anchor(kind != "A")
            case "k" if self._unicode or any(self._names):
                return self._named_reference()
        if kind in "123456789" and (reference := self._reference()) is not None:
            return reference
        characters = self._set_of(kind)
        if characters is not None:
            return self._characters(characters.ranges, characters.properties)
        return self._one(self._character_of(kind, in_class=False))

    def _reference(self) -> BackReference | None:
        """The reference whose first digit has been read; None if there are fewer groups."""
        self._cursor.at -= 1
        start = self._cursor.at
        digits = self._cursor.take(_DIGITS)
        assert digits is not None
        number = int(digits[0][:MAX_COUNT_DIGITS])
        if number <= len(self._names):
            return BackReference(number)
        if self._unicode:
            raise self._cursor.error("a reference to a group that is missing")
        self._cursor.at = start + 1
        return None

    def _named_reference(self) -> BackReference:
        name = self._cursor.take(_NAME) if self._cursor.skip("<") else None
        if name is None or self._names.count(name[1]) != 1:
            raise self._cursor.error("a reference to a group that is missing, or to several")
        return BackReference(self._names.index(name[1]) + 1)

    # --- quantifiers ---

    def _quantified(self, part: Part, *, is_assertion: bool) -> Part:
        counts = self._counts()
        if counts is None:
            return part
        lazy = self._cursor.skip("?")
        least, most = counts
        if is_assertion:
            if self._unicode or not isinstance(part, Look) or part.behind:
                raise self._cursor.error("a repeated assertion")
            return part if least else EMPTY
        return Repetition(part, least, most, lazy)

    def _counts(self) -> tuple[int, int | None] | None:
        character = self._cursor.peek()
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(character)
        if simple is not None:
            self._cursor.at += 1
            return simple
        counts = self._cursor.take(_COUNTS) if character == "{" else None
        if counts is None:
            return None
        least, comma, most = counts.groups()
        if max(len(least), len(most)) > MAX_COUNT_DIGITS or (most and not comma):
            raise self._cursor.error("a count that is none")
        if most and int(most) < int(least):
            raise self._cursor.error("a count that ends before it begins")
        if not comma:
            return int(least), int(least)
        return int(least), int(most) if most else None

    # --- characters and classes ---

    def _one(self, code: int) -> Characters:
        return self._characters(ranges_of([(code, code)]))

    def _characters(
        self,
        ranges: Ranges,
        properties: frozenset[str] = frozenset(),
        *,
        excluded: bool = False,
    ) -> Characters:
        """These characters, or all others, with regard to the flag `i`."""
        if "i" in self._flags:
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
        is_folded = self._unicode and "i" in self._flags
        return folded(WORD, unicode=True) if is_folded else WORD

    def _set_of(self, kind: str) -> Characters | None:
        r"""Return the characters of `\d`, `\p{…}` and the like; None if this is none of these."""
        if kind.lower() in _CLASSES:
            ranges = self._word() if kind.lower() == "w" else _CLASSES[kind.lower()]
            return Characters(ranges if kind.islower() else other_than(ranges))
        if kind not in "pP":
            return None
        prop = self._cursor.take(_PROPERTY)
        if prop is None or not is_known(f"{kind}{prop[0]}"):
            if self._unicode or prop is not None:
                raise self._cursor.error("a property of characters that is not known")
            return None
        return Characters((), frozenset([f"{kind}{prop[0]}"]))

    def _character_of(self, kind: str, *, in_class: bool) -> int:
        """Return the character of an escape sequence that begins with `kind`."""
        if kind in _CONTROLS:
            return ord(_CONTROLS[kind])
        if kind in "01234567" and not (self._unicode and kind != "0"):
            return self._octal()
        if kind == "c":
            return self._control(in_class)
        if kind in _HEX:
            code = self._hexadecimal(kind)
            if code is not None:
                return code
        if self._unicode and kind not in _SYNTAX and not (in_class and kind == "-"):
            raise self._cursor.error(f"the escape \\{kind}")
        return ord(kind)

    def _octal(self) -> int:
        self._cursor.at -= 1
        octal = self._cursor.take(_OCTAL)
        assert octal is not None
        if self._unicode and (len(octal[0]) > 1 or self._cursor.peek().isdecimal()):
            raise self._cursor.error("an octal escape")
        return int(octal[0], 8)

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
        """Return the character of `\\x` or `\\u`; None if no number follows."""
        if kind == "u" and (point := self._cursor.take(_CODE_POINT)) is not None:
            code = int(point[1], 16)
            if code > 0x10FFFF:
                raise self._cursor.error("a code point beyond Unicode")
            return code
        digits = self._cursor.take(_HEX[kind])
        if digits is None:
            return None
        code = int(digits[0], 16)
        if 0xD800 <= code <= 0xDBFF and (low := self._cursor.take(_LOW_HALF)) is not None:
            return 0x10000 + (code - 0xD800) * 0x400 + int(low[1], 16) - 0xDC00
        return code

    def _class_of(self) -> Characters:
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
            for member in members:
                if isinstance(member, int):
                    ranges.append((member, member))
                else:
                    ranges += member.ranges
                    properties |= member.properties
        return self._characters(ranges_of(ranges), properties, excluded=excluded)

    def _member(self) -> int | Characters:
        character = self._cursor.next()
        if character != "\\":
            return ord(character)
        kind = self._cursor.next()
        if kind == "b":
            return ord("\b")
        characters = self._set_of(kind)
        return self._character_of(kind, in_class=True) if characters is None else characters


def _simplified(part: Part) -> Part:
    """Return a part without groups, and without repetitions of what is always empty, which engines
    refuse."""
    match part:
        case Group(one):
            return _simplified(one)
        case Sequence(parts):
            kept = tuple(each for each in map(_simplified, parts) if each != EMPTY)
            return kept[0] if len(kept) == 1 else Sequence(kept)
        case Repetition(one, least, most):
            inside = _simplified(one)
            if most == 0 or is_always_empty(inside):
                return inside if least else EMPTY
            return Repetition(inside, least, most)
    return with_inside(part, _simplified)


class _Cursor:
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
        match = expected.match(self._pattern, self.at)
        if match is not None:
            self.at = match.end()
        return match

    def error(self, reason: str) -> Unsupported:
        return Unsupported(f"it is no regular expression of JavaScript ({reason})")
