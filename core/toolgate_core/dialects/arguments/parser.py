"""The parsers of arguments: what they share, and the parser of JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from copy import copy
from typing import Any, Self

from ..marks import Marks


class ArgumentsParser:
    """Converts the text of one call's arguments to the JSON text of an object, incrementally.

    Texts are encoded (`Marks.encode`): marks are lone surrogates. The JSON does not depend on how
    the text is split over calls of `feed`, except for the split of the JSON text. Values are passed
    on as text: numbers keep their digits, and nothing is converted by guessing.

    Errors: ArgumentsError for text that is not in the codec's form."""

    finished = False
    """Whether the arguments are complete. The text after them is in `rest`."""
    rest = ""
    """The text after the arguments that was fed; empty unless `finished`."""

    def feed(self, text: str) -> str:
        """Return the JSON text that follows from `text`; may be empty."""
        raise NotImplementedError

    def cut(self) -> str:
        """Return the rest of the JSON text if the text ends here, by `max_tokens`. It is unfinished
        JSON unless the arguments were complete: a string that was cut off stays open."""
        return ""

    def copy(self) -> Self:
        """Return an independent copy with the same state."""
        return copy(self)


class ArgumentsError(ValueError):
    """The text is not in the codec's form. `at` is the offset of the error in the text so far."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


def escaped(text: str) -> str:
    """Return the text as it stands inside a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def overlap(text: str, end: str) -> int:
    """Return the length of the longest end of `text` that is a beginning of `end`, but not all of
    it."""
    for length in range(min(len(text), len(end) - 1), 0, -1):
        if text.endswith(end[:length]):
            return length
    return 0


SPACE = " \t\n\r"


class Pending:
    """Text of arguments that was fed and has not been read yet."""

    def __init__(self, marks: Marks) -> None:
        self.text = ""
        self._marks = marks
        self._offset = 0  # of `text` in all text

    def take(self, length: int) -> str:
        taken, self.text = self.text[:length], self.text[length:]
        self._offset += length
        return taken

    def take_string(self, length: int) -> str:
        """Take text of a string, in the form of JSON. Raise ArgumentsError if it has a mark."""
        self.check(self.text[:length])
        return escaped(self.take(length))

    def string_until(self, end: str) -> tuple[str, bool] | None:
        """Take the text of a string up to `end`, as far as it is known, in the form of JSON, and
        return whether `end` follows it; None if more text is needed. Raise ArgumentsError."""
        at = self.text.find(end)
        if at >= 0:
            return self.take_string(at), True
        known = self.length_before(end)
        return (self.take_string(known), False) if known else None

    def length_before(self, end: str) -> int:
        """Return the length of the text that comes before `end`, which is not in it as a whole."""
        return len(self.text) - overlap(self.text, end)

    def skip_space(self) -> bool:
        """Whether there is text after the white space."""
        self.take(len(self.text) - len(self.text.lstrip(SPACE)))
        return bool(self.text)

    def check(self, beginning: str) -> None:
        """Raise ArgumentsError if the beginning of the text has a mark."""
        at = next((at for at, char in enumerate(beginning) if self._marks.is_mark(char)), None)
        if at is not None:
            raise self.error("A marker token is inside a value.", at)

    def error(self, message: str, at: int = 0) -> ArgumentsError:
        return ArgumentsError(message, self._offset + at)


Step = Callable[[Any], str | None]
"""The state of a parser: its method that reads next. It returns the JSON text that follows, or None
if it needs more text."""


class SteppedParser(ArgumentsParser):
    """A parser that reads `_pending`, one step after another."""

    def __init__(self, marks: Marks, step: Step) -> None:
        self._pending = Pending(marks)
        self._step = step

    def copy(self) -> Self:
        twin = super().copy()
        twin._pending = copy(self._pending)
        return twin

    def feed(self, text: str) -> str:
        """Raise ArgumentsError."""
        self._pending.text += text
        written: list[str] = []
        while not self.finished and (more := self._step(self)) is not None:
            written.append(more)
        self.rest = self._pending.text if self.finished else ""
        return "".join(written)


# --- scalars in raw text ---
#
# Families without type attributes write a string as raw text and all other values as JSON. Reader
# and grammar tell the two apart by the types that the schema allows. A text that is read as a
# scalar, although a string is allowed in its place, cannot be a string: readers decide it by
# `Scalars`, and grammars forbid it.

INTEGER = r"-?(?:0|[1-9][0-9]*)"
FRACTION_OR_EXPONENT = r"(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)"
PATTERNS = {
    "null": "null",
    "boolean": "true|false",
    "integer": INTEGER,
    "number": INTEGER + FRACTION_OR_EXPONENT,
}
"""By JSON type: the regular expression of its scalars (RFC 8259 §3 and §6)."""
_DIGITS = re.compile(r"-?[0-9]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]*)?")


class Scalars:
    """The scalars of some JSON types."""

    def __init__(self, types: Collection[str]) -> None:
        self._words = [
            word
            for kind, words in (("null", ("null",)), ("boolean", ("true", "false")))
            if kind in types
            for word in words
        ]
        self._numbers = bool({"integer", "number"} & set(types))
        parts = [pattern for kind, pattern in PATTERNS.items() if kind in types]
        self._pattern = re.compile("|".join(f"(?:{part})" for part in parts)) if parts else None

    def matches(self, text: str) -> bool:
        return self._pattern is not None and self._pattern.fullmatch(text) is not None

    def may_begin_with(self, text: str) -> bool:
        """Whether a scalar may begin with this text. True may be wrong for numbers."""
        if any(word.startswith(text) for word in self._words):
            return True
        return self._numbers and _DIGITS.fullmatch(text) is not None


# --- JSON ---

_IN_STRING = re.compile(r'["\\]')
_OUTSIDE = re.compile(r'["{}\[\]]')
_SPACE = " \t\n\r"


class JsonArguments(ArgumentsParser):
    """Finds the end of the object. Searches only for structural characters, because all arguments
    of a gateway pass through here."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._length = 0

    def feed(self, text: str) -> str:
        """Raise ArgumentsError if the text does not begin with an object."""
        if self.finished:
            self.rest += text
            return ""
        if not self._depth:
            begun = text.lstrip(_SPACE)
            if begun and not begun.startswith("{"):
                raise ArgumentsError("The arguments are not a JSON object.", self._length)
        end = self._end(text)
        self._length += len(text) if end is None else end
        if end is None:
            return text
        self.finished, self.rest = True, text[end:]
        return text[:end]

    def _end(self, text: str) -> int | None:
        """Return the position after the object; None if it does not end in `text`."""
        at = 1 if self._escaped and text else 0
        self._escaped = self._escaped and not text
        while at < len(text):
            if self._in_string:
                match = _IN_STRING.search(text, at)
                if match is None:
                    return None
                at = match.end()
                if match.group() == '"':
                    self._in_string = False
                elif at == len(text):
                    self._escaped = True
                else:
                    at += 1
                continue
            match = _OUTSIDE.search(text, at)
            if match is None:
                return None
            at = match.end()
            char = match.group()
            if char == '"':
                self._in_string = True
            elif char in "{[":
                self._depth += 1
            else:
                self._depth -= 1
                if not self._depth:
                    return at
        return None
