"""The patterns of JSON Schema, parsed."""

from __future__ import annotations

from dataclasses import dataclass

from .characters import DIGIT, DOT, SPACE, WORD, Ranges, only, other_than, ranges_of

MAX_DEPTH = 50
"""Maximum nesting of groups."""
MAX_REPEATED = 1_000


class Unsupported(Exception):
    """A pattern that is not regular, not valid, or too large."""


@dataclass(frozen=True)
class Characters:
    ranges: Ranges


@dataclass(frozen=True)
class Sequence:
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Alternatives:
    options: tuple[Part, ...]


@dataclass(frozen=True)
class Repeated:
    part: Part
    least: int
    most: int | None


@dataclass(frozen=True)
class Anchor:
    end: bool
    """`$`, not `^`."""


@dataclass(frozen=True)
class LookAhead:
    part: Part
    negative: bool


Part = Characters | Sequence | Alternatives | Repeated | Anchor | LookAhead

_CLASSES = {"d": DIGIT, "w": WORD, "s": SPACE}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_LITERAL = frozenset("/-_.*+?^$|()[]{}\\@,:;=!<>&#%~ '\"`")


def parse(pattern: str) -> Part:
    """Raises Unsupported."""
    reader = _Reader(pattern)
    part = reader.alternatives(0)
    if reader.peek():
        raise Unsupported(pattern)
    if reader.looks and not reader.classes <= {"d", "w"}:
        # jsonschema-rs reads these classes as Unicode's in patterns with look-ahead.
        raise Unsupported(pattern)
    return part


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._negative = False
        self.looks = False
        """Whether there is a look-ahead."""
        self.classes: set[str] = set()
        """The class escapes; in capitals where they are negated."""

    def peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _next(self) -> str:
        self._at += 1
        if self._at > len(self._pattern):
            raise Unsupported(self._pattern)
        return self._pattern[self._at - 1]

    def _skip(self, text: str) -> bool:
        if not self._pattern.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def alternatives(self, depth: int) -> Part:
        if depth > MAX_DEPTH:
            raise Unsupported(self._pattern)
        options = [self._sequence(depth)]
        while self._skip("|"):
            options.append(self._sequence(depth))
        return options[0] if len(options) == 1 else Alternatives(tuple(options))

    def _sequence(self, depth: int) -> Part:
        parts: list[Part] = []
        while self.peek() not in ("", "|", ")"):
            parts.append(self._quantified(self._part(depth)))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _part(self, depth: int) -> Part:
        character = self._next()
        match character:
            case "(":
                return self._group(depth)
            case "[":
                return Characters(self._class())
            case "\\":
                return Characters(self._escape())
            case "^" | "$":
                return Anchor(character == "$")
            case ".":
                return Characters(DOT)
            case "*" | "+" | "?" | "{":
                raise Unsupported(self._pattern)
            case _:
                return Characters(only(character))

    def _group(self, depth: int) -> Part:
        look = None
        if self._skip("?"):
            if self._skip("<"):
                if self.peek() in ("=", "!"):
                    raise Unsupported(self._pattern)
                while self._next() != ">":
                    pass
            elif not self._skip(":"):
                look = self._next()
                if look not in ("=", "!"):
                    raise Unsupported(self._pattern)
        self.looks = self.looks or look is not None
        outer = self._negative
        self._negative ^= look == "!"
        part = self.alternatives(depth + 1)
        self._negative = outer
        if not self._skip(")"):
            raise Unsupported(self._pattern)
        return part if look is None else LookAhead(part, look == "!")

    def _escape(self) -> Ranges:
        character = self._next()
        kind = character.lower()
        if kind in _CLASSES:
            self.classes.add(character.swapcase() if self._negative else character)
            return _CLASSES[kind] if kind == character else other_than(_CLASSES[kind])
        if character in _CONTROLS:
            return only(_CONTROLS[character])
        if character in ("x", "u"):
            digits = "".join(self._next() for _ in range(2 if character == "x" else 4))
            try:
                point = int(digits, 16)
            except ValueError:
                raise Unsupported(self._pattern) from None
            if 0xD800 <= point <= 0xDFFF:
                raise Unsupported(self._pattern)
            return only(chr(point))
        if character not in _LITERAL:
            raise Unsupported(self._pattern)
        return only(character)

    def _class(self) -> Ranges:
        excluded = self._skip("^")
        parts: list[tuple[int, int]] = []
        self._negative ^= excluded
        if self.peek() == "]":
            raise Unsupported(self._pattern)
        while not self._skip("]"):
            low = self._member()
            if self.peek() == "-" and self._pattern[self._at + 1 : self._at + 2] != "]":
                self._at += 1
                high = self._member()
                if not _is_single(low) or not _is_single(high) or low > high:
                    raise Unsupported(self._pattern)
                parts.append((low[0][0], high[0][0]))
            else:
                parts += low
        self._negative ^= excluded
        ranges = ranges_of(parts)
        return other_than(ranges) if excluded else ranges

    def _member(self) -> Ranges:
        character = self._next()
        if character == "\\":
            return self._escape()
        if character in "&~-" and self.peek() == character:
            raise Unsupported(self._pattern)  # a set operation in Rust's syntax
        return only(character)

    def _quantified(self, part: Part) -> Part:
        character = self.peek()
        if not character or character not in "*+?{":
            return part
        self._at += 1
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(character) or self._counts()
        if isinstance(part, Anchor | LookAhead) or max(least, most or 0) > MAX_REPEATED:
            raise Unsupported(self._pattern)
        self._skip("?")
        if self.peek() and self.peek() in "*+?{":
            raise Unsupported(self._pattern)
        return Repeated(part, least, most)

    def _counts(self) -> tuple[int, int | None]:
        end = self._pattern.find("}", self._at)
        least, comma, most = self._pattern[self._at : max(end, self._at)].partition(",")
        if not least.isdecimal() or not (most.isdecimal() or not most):
            raise Unsupported(self._pattern)
        self._at = end + 1
        if not comma:
            return int(least), int(least)
        if most and int(most) < int(least):
            raise Unsupported(self._pattern)
        return int(least), int(most) if most else None


def _is_single(ranges: Ranges) -> bool:
    return len(ranges) == 1 and ranges[0][0] == ranges[0][1]
