"""Arguments whose text shows the type of each value: objects, arrays, strings and scalars.

`TypedValues` is the common part of the parsers of such codecs. A codec defines how its strings and
keys are written, and how the outermost object begins and ends: `{key:value,…}` with bare keys and
strings between two marks (Gemma), and keyword arguments of a Python call with literals of Python,
or of JSON.
"""

from __future__ import annotations

import re
from typing import ClassVar

from ..dialect import GemmaValues, Pythonic
from ..marks import Marks
from .parser import SteppedParser, escaped

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


class TypedValues(SteppedParser):
    """The JSON has the separators `, ` and `: `. Duplicate keys are passed on."""

    OUTER_END: ClassVar[str]
    """The character that ends the outermost object."""
    takes_end = True
    """Whether that character is part of the arguments."""

    def __init__(self, marks: Marks) -> None:
        super().__init__(marks, TypedValues._member)
        self._ends = ""  # the characters that end the open containers inside the outermost
        self._has_members = False
        self._begun = False  # whether the brace of the outermost object was written
        self._is_key = False  # whether the current string is a key

    def cut(self) -> str:
        if self.finished:
            return ""
        if self._step is TypedValues._scalar and _NUMBER_BEGIN.fullmatch(self._pending.text):
            return self._pending.text
        if self._step is TypedValues._string:
            return self._cut_string()
        return ""

    # --- what differs between codecs ---

    def _key(self) -> str | None:
        """Return a key, or the beginning of one that is a string; None if more text is needed."""
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
        """Return a key, or the end of an object."""
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
        self._step = TypedValues._value
        return ": "

    def _value(self) -> str | None:
        """Return the beginning of a value, or the end of an array."""
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
            self._step, self._is_key = TypedValues._string, False
            return f'{separator}"'
        if first in "{[":
            self._pending.take(1)
            if len(self._ends) >= MAX_DEPTH:
                raise self._pending.error(f"Values are nested deeper than {MAX_DEPTH} levels.")
            self._ends += "}" if first == "{" else "]"
            self._has_members = False
            self._step = TypedValues._member if first == "{" else TypedValues._value
            return separator + first
        self._step = TypedValues._scalar
        return separator

    def _scalar(self) -> str | None:
        match = _SCALAR.match(self._pending.text)
        assert match is not None
        if match.end() == len(self._pending.text):
            return None
        text = match.group()
        written = WORDS.get(text, text)
        if text not in WORDS and not _NUMBER.fullmatch(text):
            raise self._pending.error(
                f"A value is neither a string, number, boolean nor null: {text!r}."
            )
        self._pending.take(match.end())
        self._step = TypedValues._after_value
        return written

    def _string(self) -> str | None:
        string = self._string_text()
        if string is None:
            return None
        text, ended = string
        if not ended:
            return text
        self._step = TypedValues._after_key if self._is_key else TypedValues._after_value
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
        self._step = TypedValues._value if self._ends.endswith("]") else TypedValues._member
        return ""

    def _close(self) -> str:
        if not self._ends:
            if self.takes_end:
                self._pending.take(1)
            self.finished = True
            return "}"
        self._pending.take(1)
        closed, self._ends = self._ends[-1], self._ends[:-1]
        self._step, self._has_members = TypedValues._after_value, True
        return closed

    @property
    def _end(self) -> str:
        """The character that ends the innermost container."""
        return self._ends[-1] if self._ends else self.OUTER_END


_BARE_KEY = re.compile(r"[^:,{}\[\]]*")


class GemmaArguments(TypedValues):
    """Without `braces`, the arguments end before the `}` of the call, which is in `rest`.

    A string ends at the next quote mark: there is no escape. A key can also be a string, as in the
    declarations of tools."""

    OUTER_END = "}"

    def __init__(self, codec: GemmaValues, marks: Marks) -> None:
        super().__init__(marks)
        self._quote = marks.encode(codec.quote)
        self.takes_end = codec.braces
        if codec.braces:
            self._step = GemmaArguments._begin

    def _begin(self) -> str | None:
        """Return the brace before the first key, which has no JSON of its own."""
        if not self._pending.skip_space():
            return None
        if self._pending.text[0] != "{":
            raise self._pending.error("The arguments do not begin with a brace.")
        self._pending.take(1)
        self._step = TypedValues._member
        return ""

    def _key(self) -> str | None:
        begins = self._begin_string()
        if begins is None:
            return None
        if begins:
            self._step, self._is_key = TypedValues._string, True
            return '"'
        match = _BARE_KEY.match(self._pending.text)
        assert match is not None
        if match.end() == len(self._pending.text):
            return None
        name = match.group()
        if self._pending.text[match.end()] != ":" or not name:
            raise self._pending.error("A key is not followed by its value.")
        self._pending.check(name)
        self._pending.take(match.end() + 1)
        self._step = TypedValues._value
        return f'"{escaped(name.rstrip())}": '

    def _begin_string(self) -> bool | None:
        if self._pending.text.startswith(self._quote):
            self._pending.take(len(self._quote))
            return True
        return None if self._quote.startswith(self._pending.text) else False

    def _string_text(self) -> tuple[str, bool] | None:
        text = self._pending.string_until(self._quote)
        if text is not None and text[1]:
            self._pending.take(len(self._quote))
        return text

    def _cut_string(self) -> str:
        return escaped(self._pending.text)


_NAME = re.compile(r"""[^\s=,:()'"\[\]{}]*""")
_SIMPLE_ESCAPES = {
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "b": "\b",
    "f": "\f",
    "a": "\a",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "\n": "",
}
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
_OCTAL = re.compile(r"[0-7]{1,3}")
_MAX_CODE_POINT = 0x10FFFF


class PythonicArguments(TypedValues):
    """The arguments end before the `)` of the call, which is in `rest`.

    Strings can have either quotation mark. Keys of dicts must be strings. With `json_objects`,
    strings in dicts can have the escape `\\/`; all other escapes of JSON are also Python's."""

    OUTER_END = ")"
    takes_end = False

    def __init__(self, codec: Pythonic, marks: Marks) -> None:
        super().__init__(marks)
        self._json_objects = codec.json_objects
        self._quote = ""

    def _key(self) -> str | None:
        if self._ends:
            begins = self._begin_string()
            if not begins:
                raise self._pending.error("A key of a dict is not a string.")
            self._step, self._is_key = TypedValues._string, True
            return '"'
        match = _NAME.match(self._pending.text)
        assert match is not None
        after = self._pending.text[match.end() :].lstrip(" ")
        if not after:
            return None
        name = match.group()
        if after[0] != "=" or not name:
            raise self._pending.error("An argument is not written as a name and a value.")
        self._pending.check(name)
        self._pending.take(len(self._pending.text) - len(after) + 1)
        self._step = TypedValues._value
        return f'"{escaped(name)}": '

    def _begin_string(self) -> bool | None:
        if self._pending.text[0] not in "'\"":
            return False
        self._quote = self._pending.take(1)
        return True

    def _string_text(self) -> tuple[str, bool] | None:
        text = self._pending.text
        ends = [at for at in (text.find(self._quote), text.find("\\")) if at >= 0]
        length = min(ends, default=len(text))
        if length:
            return self._pending.take_string(length), False
        if not text:
            return None
        if text[0] == self._quote:
            self._pending.take(1)
            return "", True
        written = self._escape()
        return None if written is None else (written, False)

    def _cut_string(self) -> str:
        return ""  # the rest is an incomplete escape

    def _escape(self) -> str | None:
        """JSON text of the escape at the beginning; None if it is incomplete."""
        text = self._pending.text
        if len(text) < 2:
            return None
        kind = text[1]
        if kind in _SIMPLE_ESCAPES:
            self._pending.take(2)
            return escaped(_SIMPLE_ESCAPES[kind])
        if kind in _HEX_DIGITS:
            return self._hex_escape(_HEX_DIGITS[kind])
        if octal := _OCTAL.match(text, 1):
            if octal.end() == len(text) and len(octal.group()) < 3:
                return None
            self._pending.take(octal.end())
            return escaped(chr(int(octal.group(), 8)))
        if kind == "/" and self._json_objects and "}" in self._ends:
            self._pending.take(1)
            return ""
        self._pending.take(1)  # Python keeps the backslash of an unknown escape
        return "\\\\"

    def _hex_escape(self, length: int) -> str | None:
        digits = self._pending.text[2 : 2 + length]
        if not all(char in "0123456789abcdefABCDEF" for char in digits):
            raise self._pending.error("An escape in a string is invalid.")
        if len(digits) < length:
            return None
        code = int(digits, 16)
        if code > _MAX_CODE_POINT:
            raise self._pending.error("An escape in a string is invalid.")
        self._pending.take(2 + length)
        if 0xD800 <= code <= 0xDFFF:  # half of a pair, which only its escape can represent
            return f"\\u{code:04x}"
        return escaped(chr(code))
