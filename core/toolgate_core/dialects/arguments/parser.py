"""The interface of the parsers of arguments, and what most of them have in common."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import copy
from enum import Enum
from typing import Protocol, Self

from ..marks import Marks


class ArgumentsParser(Protocol):
    """Converts the text of one call's arguments to the JSON text of an object, incrementally.

    Texts are encoded (`Marks.encode`): marks are lone surrogates. The JSON does not depend on how
    the text is split over calls of `feed`, except for the split of the JSON text. Values are passed
    on as text: numbers keep their digits, and nothing is converted by guessing.

    Errors: ArgumentsError for text that is not in the codec's form.
    """

    @property
    def finished(self) -> bool:
        """Whether the arguments are complete. The text after them is in `rest`."""
        ...

    @property
    def rest(self) -> str:
        """The text after the arguments that was fed; empty unless `finished`."""
        ...

    def feed(self, text: str) -> str:
        """The JSON text that follows from `text`; may be empty."""
        ...

    def cut(self) -> str:
        """The rest of the JSON text if the text ends here, by `max_tokens`. It is unfinished JSON
        unless the arguments were complete: a string that was cut off stays open."""
        ...

    def copy(self) -> Self:
        """An independent copy with the same state."""
        ...


class ArgumentsError(ValueError):
    """The text is not in the codec's form. `at` is the offset of the error in the text so far."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


def escaped(text: str) -> str:
    """The text as it stands inside a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def overlap(text: str, end: str) -> int:
    """The length of the longest end of `text` that is a beginning of `end`, but not all of it."""
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
        """Take text of a string, in the form of JSON. Raises ArgumentsError if it has a mark."""
        self.check(self.text[:length])
        return escaped(self.take(length))

    def string_until(self, end: str) -> tuple[str, bool] | None:
        """Take the text of a string up to `end`, as far as it is known, in the form of JSON, and
        return whether `end` follows it; None if more text is needed. Raises ArgumentsError."""
        at = self.text.find(end)
        if at >= 0:
            return self.take_string(at), True
        known = self.length_before(end)
        return (self.take_string(known), False) if known else None

    def length_before(self, end: str) -> int:
        """The length of the text that comes before `end`, which is not in it as a whole."""
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


class SteppedParser:
    """A parser that reads `_pending`, one step after another, as its state decides."""

    _state: Enum

    def __init__(self, marks: Marks) -> None:
        self._pending = Pending(marks)
        self.finished = False

    @property
    def rest(self) -> str:
        return self._pending.text if self.finished else ""

    def copy(self) -> Self:
        twin = copy(self)
        twin._pending = copy(self._pending)
        return twin

    def feed(self, text: str) -> str:
        """Raises ArgumentsError."""
        self._pending.text += text
        steps = self._steps()
        written: list[str] = []
        while not self.finished:
            more = steps[self._state]()
            if more is None:
                break
            written.append(more)
        return "".join(written)

    def _steps(self) -> Mapping[Enum, Callable[[], str | None]]:
        """By state: the step, which returns the JSON text that follows, or None if it needs more
        text."""
        raise NotImplementedError
