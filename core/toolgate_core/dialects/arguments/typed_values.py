"""Arguments whose text shows the type of each value: objects, arrays, strings and scalars.

`TypedValues` is the common part of the parsers of such codecs. A codec defines how its strings and
keys are written, and how the outermost object begins and ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import ClassVar

from ..marks import Marks
from .parser import SteppedParser

_SCALAR = re.compile(r"[A-Za-z0-9_.+-]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NUMBER_BEGIN = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][+-]?[0-9]*)?)?")
WORDS = {
    "true": "true",
    "True": "true",
    "false": "false",
    "False": "false",
    "null": "null",
    "None": "null",
}
"""The scalars that are words, with their JSON text."""
MAX_DEPTH = 200
"""Maximum nesting of values."""


class State(Enum):
    BEGIN = auto()
    """Before the outermost object."""
    MEMBER = auto()
    """Before a key, or the end of an object."""
    AFTER_KEY = auto()
    VALUE = auto()
    """Before a value, or the end of an array."""
    SCALAR = auto()
    STRING = auto()
    AFTER_VALUE = auto()


class TypedValues(SteppedParser):
    """The JSON has the separators `, ` and `: `. Duplicate keys are passed on."""

    OUTER_END: ClassVar[str]
    """The character that ends the outermost object."""
    takes_end = True
    """Whether that character is part of the arguments."""

    def __init__(self, marks: Marks) -> None:
        super().__init__(marks)
        self._state = State.MEMBER
        self._ends = ""  # the characters that end the open containers inside the outermost
        self._has_members = False
        self._begun = False  # whether the brace of the outermost object was written
        self._is_key = False  # whether the current string is a key

    def _steps(self) -> Mapping[Enum, Callable[[], str | None]]:
        return {
            State.BEGIN: self._begin,
            State.MEMBER: self._member,
            State.AFTER_KEY: self._after_key,
            State.VALUE: self._value,
            State.SCALAR: self._scalar,
            State.STRING: self._string,
            State.AFTER_VALUE: self._after_value,
        }

    def cut(self) -> str:
        if self.finished:
            return ""
        if self._state is State.SCALAR and _NUMBER_BEGIN.fullmatch(self._pending.text):
            return self._pending.text
        if self._state is State.STRING:
            return self._cut_string()
        return ""

    # --- what differs between codecs ---

    def _begin(self) -> str | None:
        """The text before the first key, which has no JSON; None if more text is needed."""
        raise NotImplementedError

    def _key(self) -> str | None:
        """A key, or the beginning of one that is a string; None if more text is needed."""
        raise NotImplementedError

    def _begin_string(self) -> bool | None:
        """Whether a string begins here, whose mark is then taken; None if more text is needed."""
        raise NotImplementedError

    def _string_text(self) -> tuple[str, bool] | None:
        """JSON text of a part of the string, and whether the string ends with it; None if more text
        is needed."""
        raise NotImplementedError

    def _cut_string(self) -> str:
        """JSON text of the rest of a string that was cut off."""
        raise NotImplementedError

    # --- steps ---

    def _member(self) -> str | None:
        if not self._pending.skip_space():
            return None
        opened = "" if self._begun else "{"
        self._begun = True
        if self._pending.text[0] == self._end:
            return opened + self._close()
        written = self._key()
        if written is None:
            self._begun = not opened
            return None
        separator = ", " if self._has_members else ""
        return opened + separator + written

    def _after_key(self) -> str | None:
        if not self._pending.skip_space():
            return None
        if self._pending.text[0] != ":":
            raise self._pending.error("A key is not followed by its value.")
        self._pending.take(1)
        self._state = State.VALUE
        return ": "

    def _value(self) -> str | None:
        if not self._pending.skip_space():
            return None
        first = self._pending.text[0]
        in_array = self._ends.endswith("]")
        if first == "]" and in_array:
            return self._close()
        begins = self._begin_string()
        if begins is None:
            return None
        separator = ", " if in_array and self._has_members else ""
        if begins:
            self._state, self._is_key = State.STRING, False
            return f'{separator}"'
        if first in "{[":
            self._pending.take(1)
            if len(self._ends) >= MAX_DEPTH:
                raise self._pending.error(f"Values are nested deeper than {MAX_DEPTH} levels.")
            self._ends += "}" if first == "{" else "]"
            self._has_members = False
            self._state = State.MEMBER if first == "{" else State.VALUE
            return separator + first
        self._state = State.SCALAR
        return separator

    def _scalar(self) -> str | None:
        found = _SCALAR.match(self._pending.text)
        assert found is not None
        if found.end() == len(self._pending.text):
            return None
        text = found.group()
        written = WORDS.get(text, text)
        if text not in WORDS and not _NUMBER.fullmatch(text):
            raise self._pending.error(
                f"A value is neither a string, number, boolean nor null: {text!r}."
            )
        self._pending.take(found.end())
        self._state = State.AFTER_VALUE
        return written

    def _string(self) -> str | None:
        found = self._string_text()
        if found is None:
            return None
        text, ended = found
        if not ended:
            return text
        self._state = State.AFTER_KEY if self._is_key else State.AFTER_VALUE
        return f'{text}"'

    def _after_value(self) -> str | None:
        if not self._pending.skip_space():
            return None
        self._has_members = True
        first = self._pending.text[0]
        if first == self._end:
            return self._close()
        if first != ",":
            raise self._pending.error("A value is not followed by a comma or the end.")
        self._pending.take(1)
        self._state = State.VALUE if self._ends.endswith("]") else State.MEMBER
        return ""

    def _close(self) -> str:
        if not self._ends:
            if self.takes_end:
                self._pending.take(1)
            self.finished = True
            return "}"
        self._pending.take(1)
        closed, self._ends = self._ends[-1], self._ends[:-1]
        self._state, self._has_members = State.AFTER_VALUE, True
        return closed

    @property
    def _end(self) -> str:
        """The character that ends the innermost container."""
        return self._ends[-1] if self._ends else self.OUTER_END
