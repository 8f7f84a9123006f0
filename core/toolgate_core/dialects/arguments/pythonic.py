"""Keyword arguments of a Python call: literals of Python, or of JSON."""

from __future__ import annotations

import re

from ..dialect import Pythonic
from ..marks import Marks
from .parser import escaped
from .typed_values import State, TypedValues

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
    strings in dicts can have the escape `\\/`; all other escapes of JSON are also Python's.
    """

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
            self._state, self._is_key = State.STRING, True
            return '"'
        found = _NAME.match(self._pending.text)
        assert found is not None
        after = self._pending.text[found.end() :].lstrip(" ")
        if not after:
            return None
        name = found.group()
        if after[0] != "=" or not name:
            raise self._pending.error("An argument is not written as a name and a value.")
        self._pending.check(name)
        self._pending.take(len(self._pending.text) - len(after) + 1)
        self._state = State.VALUE
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
