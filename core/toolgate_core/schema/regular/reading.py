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

from .characters import ANY, LINE_END, other_than
from .classes import CharacterReader, Cursor
from .syntax import (
    EMPTY,
    Alternatives,
    Anchor,
    BackReference,
    Boundary,
    Characters,
    Group,
    Look,
    Part,
    Repeated,
    Sequence,
    Unsupported,
    every_part,
    is_always_empty,
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


@lru_cache(maxsize=4_096)
def parse(pattern: str) -> Part:
    """Raises Unsupported."""
    if len(pattern) > MAX_LENGTH:
        raise Unsupported(f"it has more than {MAX_LENGTH:,} characters")
    try:
        return _Reader(pattern, unicode=True).whole()
    except Unsupported:
        return _Reader(pattern, unicode=False).whole()


class _Reader:
    def __init__(self, pattern: str, *, unicode: bool) -> None:
        self._cursor = Cursor(pattern)
        self._unicode = unicode
        self._characters = CharacterReader(self._cursor, unicode=unicode)
        self._flags = frozenset[str]()
        groups = [found for found in _GROUPS.finditer(pattern) if found[0].startswith("(")]
        self._names = [found[1] for found in groups]

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
                return self._characters.class_of()
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
        return self._characters.one(ord(character))

    def _anchor(self, *, end: bool) -> Part:
        if "m" not in self._flags:
            return Anchor(end)
        return Alternatives((Anchor(end), Look(Characters(LINE_END), False, behind=not end)))

    def _group(self, depth: int) -> Part:
        flags = self._flags
        part = self._group_inside(depth)
        self._set_flags(flags)
        return part

    def _set_flags(self, flags: frozenset[str]) -> None:
        self._flags = flags
        self._characters.ignores_case = "i" in flags

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
        found = self._cursor.take(_FLAGS)
        if found is None:
            raise self._cursor.error("an unknown kind of group")
        on, off = found[1], found[2] or ""
        if len({*on, *off}) < len(on + off) or (found[2] is not None and not on + off):
            raise self._cursor.error("flags that contradict each other")
        self._set_flags((self._flags | {*on}) - {*off})
        return self._closed(depth)

    def _flags_of_rest(self) -> bool:
        """Read `(?i)`, which other engines have up to the end of the group around it."""
        found = None if self._unicode else self._cursor.take(_FLAGS_OF_REST)
        if found is None:
            return False
        self._set_flags((self._flags | {*found[1]}) - {*(found[2] or "")})
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
        found = self._characters.set_of(kind)
        if found is not None:
            return self._characters.characters(found.ranges, found.properties)
        return self._characters.one(self._characters.character_of(kind, in_class=False))

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
        return Repeated(part, least, most, lazy)

    def _counts(self) -> tuple[int, int | None] | None:
        character = self._cursor.peek()
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(character)
        if simple is not None:
            self._cursor.at += 1
            return simple
        found = self._cursor.take(_COUNTS) if character == "{" else None
        if found is None:
            return None
        least, comma, most = found.groups()
        if max(len(least), len(most)) > MAX_COUNT_DIGITS or (most and not comma):
            raise self._cursor.error("a count that is none")
        if most and int(most) < int(least):
            raise self._cursor.error("a count that ends before it begins")
        if not comma:
            return int(least), int(least)
        return int(least), int(most) if most else None


def _simplified(part: Part) -> Part:
    """A part without groups, and without repetitions of what is always empty, which engines
    refuse."""
    match part:
        case Group(one):
            return _simplified(one)
        case Sequence(parts):
            kept = tuple(each for each in map(_simplified, parts) if each != EMPTY)
            return kept[0] if len(kept) == 1 else Sequence(kept)
        case Alternatives(options):
            return Alternatives(tuple(map(_simplified, options)))
        case Repeated(one, least, most):
            inside = _simplified(one)
            if most == 0 or is_always_empty(inside):
                return inside if least else EMPTY
            return Repeated(inside, least, most)
        case Look(one, negative, behind):
            return Look(_simplified(one), negative, behind)
    return part
