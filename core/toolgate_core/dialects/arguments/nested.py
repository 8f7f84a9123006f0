"""Arguments in nested tags: raw strings, other scalars as JSON, objects and arrays as tags."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import copy
from enum import Enum, auto
from typing import Any, NamedTuple, Self

from ..codecs import NestedTags
from ..marks import Marks
from .locations import Location
from .parser import ArgumentsError
from .scalars import PATTERNS, Scalars
from .text import escaped, overlap
from .typed_values import MAX_DEPTH

_SPACE = " \t\n\r"
_JSON = re.compile("|".join(f"(?:{each})" for each in PATTERNS.values()))


class _State(Enum):
    ELEMENT = auto()
    """Before a tag."""
    NAME = auto()
    VALUE = auto()
    RAW = auto()
    END = auto()
    """Before the end tag of a scalar."""


class _Open(NamedTuple):
    """An open tag. `end` is what closes its value: empty before it is known to be a container."""

    name: str
    place: Location
    end: str = ""
    begun: int = 0
    """Number of members or items that were begun."""


class NestedArguments:
    """The types of the schema decide how a value is read.

    A value that begins with a tag is an array if the schema allows one, and either the first tag is
    that of an item or no object is allowed; else an object. A value without text is a string, an
    array or an object, the first of these that is allowed. Any other text is JSON if it is a scalar
    of an allowed type, or if no string is allowed, and else a string.
    """

    def __init__(self, codec: NestedTags, parameters: Mapping[str, Any], marks: Marks) -> None:
        self._item = codec.item
        self._marks = marks
        self._begin = marks.encode(codec.namespace) + "<"
        self._close = self._begin + "/"
        self._namespace = self._begin[:-1]
        self._state = _State.ELEMENT
        self._pending = ""
        self._offset = 0  # of `_pending` in the text
        self._open: tuple[_Open, ...] = (_Open("", Location.root(parameters), "}"),)
        self._begun = False
        self.finished = False

    @property
    def rest(self) -> str:
        return self._pending if self.finished else ""

    def copy(self) -> Self:
        return copy(self)

    def feed(self, text: str) -> str:
        """Raises ArgumentsError."""
        self._pending += text
        steps = {
            _State.ELEMENT: self._element,
            _State.NAME: self._name,
            _State.VALUE: self._value,
            _State.RAW: self._raw,
            _State.END: self._end,
        }
        written: list[str] = []
        while not self.finished:
            more = steps[self._state]()
            if more is None:
                break
            written.append(more)
        return "".join(written)

    def cut(self) -> str:
        if self.finished or self._state is not _State.RAW:
            return ""
        known = len(self._pending) - overlap(self._pending, self._namespace)
        return escaped(self._pending[:known])

    # --- states; each returns the JSON text that follows, or None if it needs more text ---

    def _element(self) -> str | None:
        """A tag that begins a value, or the end tag of the container."""
        outermost = len(self._open) == 1
        text = self._pending.lstrip(_SPACE)
        if text == self._begin or self._begin.startswith(text):
            return None
        if text.startswith(self._begin) and not text.startswith(self._close):
            self._skip_space()
            self._take(len(self._begin))
            self._state = _State.NAME
            opened, self._begun = "" if self._begun else "{", True
            return opened
        if not outermost:
            return self._close_container()
        self.finished = True
        return "}" if self._begun else "{}"

    def _name(self) -> str | None:
        at = self._pending.find(">")
        if at < 0:
            return None
        name, outer = self._pending[:at], self._open[-1]
        is_array = outer.end == "]"
        if not name.strip() or (is_array and name != self._item):
            raise self._error(f"The tag {name!r} is not expected here.")
        self._check_text(name)
        if len(self._open) > MAX_DEPTH:
            raise self._error(f"Values are nested deeper than {MAX_DEPTH} levels.")
        self._take(at + 1)
        place = outer.place.member(outer.begun if is_array else name)
        self._open = (*self._open[:-1], outer._replace(begun=outer.begun + 1), _Open(name, place))
        self._state = _State.VALUE
        separator = ", " if outer.begun else ""
        return separator if is_array else f'{separator}"{escaped(name)}": '

    def _value(self) -> str | None:
        """Decides how the value is written."""
        types = self._open[-1].place.types
        text = self._pending
        if "string" not in types:
            text = text.lstrip(_SPACE)
        if text.startswith(self._close):
            return self._empty(types)
        if self._close.startswith(text):
            return None
        if text.startswith(self._begin):
            return self._begin_container(types)
        if types == {"string"}:
            return self._begin_raw()
        at = text.find(self._namespace)
        if "string" not in types:
            return None if at < 0 else self._json(types)
        scalars = Scalars(types)
        if at >= 0:
            return self._json(types) if scalars.matches(text[:at]) else self._begin_raw()
        known = text[: len(text) - overlap(text, self._namespace)]
        return None if scalars.may_begin_with(known) else self._begin_raw()

    def _empty(self, types: frozenset[str]) -> str:
        """A value without text."""
        self._skip_space()
        self._state = _State.END
        for kind, written in (("string", '""'), ("array", "[]"), ("object", "{}")):
            if kind in types:
                return written
        raise self._error("A value is empty.")

    def _begin_container(self, types: frozenset[str]) -> str | None:
        is_array = "array" in types
        if is_array and "object" in types:
            at = self._pending.find(">", self._pending.index(self._begin) + len(self._begin))
            if at < 0:
                return None
            is_array = self._pending[:at].endswith(self._begin + self._item)
        self._skip_space()
        end = "]" if is_array else "}"
        self._open = (*self._open[:-1], self._open[-1]._replace(end=end))
        self._state = _State.ELEMENT
        return "[" if is_array else "{"

    def _begin_raw(self) -> str:
        self._state = _State.RAW
        return '"'

    def _json(self, types: frozenset[str]) -> str:
        text = self._pending[: self._pending.index(self._namespace)].strip(_SPACE)
        kind = {"{": "object", "[": "array"}.get(text[:1])
        if kind not in types and not _JSON.fullmatch(text):
            raise self._error(f"A value is not of a type that the schema allows: {text[:60]!r}.")
        self._take(self._pending.index(self._namespace))
        self._state = _State.END
        return text

    def _raw(self) -> str | None:
        at = self._pending.find(self._namespace)
        if at >= 0:
            written = self._string(at)
            self._state = _State.END
            return f'{written}"'
        known = len(self._pending) - overlap(self._pending, self._namespace)
        return self._string(known) if known else None

    def _end(self) -> str | None:
        return self._close_tag()

    def _close_container(self) -> str | None:
        closed = self._open[-1].end
        written = self._close_tag()
        return None if written is None else closed

    def _close_tag(self) -> str | None:
        self._skip_space()
        end = f"{self._close}{self._open[-1].name}>"
        if self._pending.startswith(end):
            self._take(len(end))
            self._open = self._open[:-1]
            self._state = _State.ELEMENT
            return ""
        if end.startswith(self._pending):
            return None
        raise self._error("A value is closed in an unexpected form.")

    # --- text ---

    def _string(self, length: int) -> str:
        self._check_text(self._pending[:length])
        return escaped(self._take(length))

    def _skip_space(self) -> None:
        self._take(len(self._pending) - len(self._pending.lstrip(_SPACE)))

    def _take(self, length: int) -> str:
        taken, self._pending = self._pending[:length], self._pending[length:]
        self._offset += length
        return taken

    def _check_text(self, text: str) -> None:
        at = next((at for at, char in enumerate(text) if self._marks.is_mark(char)), None)
        if at is not None:
            raise self._error("A marker token is inside a value.", at)

    def _error(self, message: str, at: int = 0) -> ArgumentsError:
        return ArgumentsError(message, self._offset + at)
