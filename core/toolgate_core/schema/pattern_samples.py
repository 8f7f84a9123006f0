"""Sample strings of regular expressions."""

from __future__ import annotations

from ..pattern_match import matches

ALPHABET = "abcdefghA0123456789_-. /"
PRINTED = "".join(map(chr, range(33, 127)))
MAX_SAMPLE = 10_000
"""Maximum length of what a repeated part matches. Repetitions inside each other multiply it."""
_CLASSES = {"d": "0", "w": "a", "s": " ", "D": "a", "W": "-", "S": "a", "n": "\n", "t": "\t"}


def sample_of(pattern: str, choice: int = 0) -> str | None:
    """A short string that a pattern matches; None if none is found. `choice` is the number of the
    alternative and of the character that it takes, where there are several."""
    try:
        sampler = _Sampler(pattern, choice)
        text = sampler.alternatives()
    except (IndexError, ValueError, ZeroDivisionError):
        return None
    return text if matches(pattern, text) else None


class _Sampler:
    """Reads a pattern and writes what each part of it matches first."""

    def __init__(self, pattern: str, choice: int) -> None:
        self._pattern = pattern
        self._choice = choice
        self._at = 0

    def alternatives(self) -> str:
        found = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            found.append(self._sequence())
        return found[self._choice % len(found)]

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _next(self) -> str:
        self._at += 1
        return self._pattern[self._at - 1]

    def _sequence(self) -> str:
        parts = []
        while self._peek() not in ("", "|", ")"):
            part = self._part()
            least = self._least()
            if least > 64 or len(part) * least > MAX_SAMPLE:
                raise ValueError("too long")
            parts.append(part * least)
        return "".join(parts)

    def _part(self) -> str:
        character = self._next()
        match character:
            case "(":
                return self._group()
            case "[":
                return self._class()
            case "\\":
                escaped = self._next()
                return "" if escaped in "bB" else _CLASSES.get(escaped, escaped)
            case "^" | "$":
                return ""
            case ".":
                return "a"
            case _:
                return character

    def _group(self) -> str:
        skipped = False
        if self._pattern.startswith("?", self._at):
            mark = self._pattern[self._at + 1 : self._at + 3]
            skipped = mark[0] in "=!" or mark in ("<=", "<!")
            self._at += 2 if mark[0] in ":=!" else 3
            if mark[0] == "<" and not skipped:
                self._at = self._pattern.index(">", self._at) + 1
        inside = self.alternatives()
        if self._next() != ")":
            raise ValueError("an open group")
        return "" if skipped else inside

    def _class(self) -> str:
        end = self._at + (2 if self._pattern.startswith("^", self._at) else 1)
        while self._pattern[end] != "]":
            end += 2 if self._pattern[end] == "\\" else 1
        one = f"^[{self._pattern[self._at : end]}]$"
        self._at = end + 1
        found = [each for each in dict.fromkeys(ALPHABET + PRINTED) if matches(one, each)]
        return found[self._choice % len(found)]

    def _least(self) -> int:
        """The smallest number of repetitions that the quantifier here allows."""
        character = self._peek()
        if not character or character not in "*+?{":
            return 1
        self._at += 1
        least = {"*": 0, "+": 1, "?": 0}.get(character)
        if least is None:
            end = self._pattern.index("}", self._at)
            least = int(self._pattern[self._at : end].split(",")[0] or 0)
            self._at = end + 1
        if self._peek() == "?":
            self._at += 1
        return least
