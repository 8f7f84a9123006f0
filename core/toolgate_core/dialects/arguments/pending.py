"""Text of arguments that was fed and has not been read yet, and what reads it step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from enum import Enum
from typing import Self

from ..marks import Marks
from .parser import ArgumentsError
from .text import escaped, overlap

SPACE = " \t\n\r"


class Pending:
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
