"""Arguments that are one JSON object, passed on as text."""

from __future__ import annotations

import re
from copy import copy
from typing import Self

from .parser import ArgumentsError

_IN_STRING = re.compile(r'["\\]')
_OUTSIDE = re.compile(r'["{}\[\]]')
_SPACE = " \t\n\r"


class JsonArguments:
    """Finds the end of the object. Searches only for structural characters, because all arguments
    of a gateway pass through here."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._length = 0
        self.finished = False
        self.rest = ""

    def feed(self, text: str) -> str:
        """Raises ArgumentsError if the text does not begin with an object."""
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
        """The position after the object; None if it does not end in `text`."""
        at = 1 if self._escaped and text else 0
        self._escaped = self._escaped and not text
        while at < len(text):
            if self._in_string:
                found = _IN_STRING.search(text, at)
                if found is None:
                    return None
                at = found.end()
                if found.group() == '"':
                    self._in_string = False
                elif at == len(text):
                    self._escaped = True
                else:
                    at += 1
                continue
            found = _OUTSIDE.search(text, at)
            if found is None:
                return None
            at = found.end()
            char = found.group()
            if char == '"':
                self._in_string = True
            elif char in "{[":
                self._depth += 1
            else:
                self._depth -= 1
                if not self._depth:
                    return at
        return None

    def cut(self) -> str:
        return ""

    def copy(self) -> Self:
        return copy(self)
