"""Arguments in nested tags: raw strings, other scalars as JSON, objects and arrays as tags."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

from ...schema.types import ALL, NONE, TypeReader, own_members
from ..dialect import NestedTags
from ..marks import Marks
from .parser import PATTERNS, SPACE, Scalars, SteppedParser, escaped, overlap
from .typed_values import MAX_DEPTH


class Location:
    """A place in the arguments of a tool.

    `types` are the types of the value at this place. They are `ALL` if the schema does not tell
    anything, or forbids the value."""

    def __init__(
        self, whole: _ArgumentsSchema, schemas: tuple[Any, ...], types: frozenset[str] = ALL
    ) -> None:
        self._whole = whole
        self._schema = {"anyOf": [*schemas]}
        self.types = types
        self.key = (frozenset(map(id, schemas)), types)
        """Equal for places with the same values."""

    @classmethod
    def root(cls, parameters: Mapping[str, Any]) -> Location:
        return cls(_ArgumentsSchema(parameters), (parameters,), frozenset({"object"}))

    def member(self, key: str | int) -> Location:
        """Return the place of a member of the object here, or of an item of the array."""
        if isinstance(key, int):
            key = min(key, self._prefix)
        known = self._whole.members
        if (self.key, key) not in known:
            known[self.key, key] = self._member(key)
        return known[self.key, key]

    def _member(self, key: str | int) -> Location:
        types = self._whole.reader.member(self._schema, key) if self._schema["anyOf"] else NONE
        schemas = {id(one): one for each in self._combined for one in own_members(each, key)}
        return Location(self._whole, tuple(schemas.values()), types or ALL)

    @property
    def _combined(self) -> list[Mapping[str, Any]]:
        return self._whole.reader.combined(self._schema)

    @cached_property
    def _prefix(self) -> int:
        """The number of items that have schemas of their own."""
        first = (each.get("prefixItems") for each in self._combined)
        return max((len(each) for each in first if isinstance(each, list)), default=0)


class _ArgumentsSchema:
    """The schema of all arguments, and what was read in it."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.reader = TypeReader(schema)
        self.members: dict[tuple[object, str | int], Location] = {}


_JSON = re.compile("|".join(f"(?:{each})" for each in PATTERNS.values()))


class _Open(NamedTuple):
    """An open tag. `end` is what closes its value: empty before it is known to be a container."""

    name: str
    place: Location
    end: str = ""
    begun: int = 0
    """Number of members or items that were begun."""


class NestedArguments(SteppedParser):
    """The types of the schema decide how a value is read.

    A value that begins with a tag is an array if the schema allows one, and either the first tag is
    that of an item or no object is allowed; else an object. A value without text is a string, an
    array or an object, the first of these that is allowed. Any other text is JSON if it is a scalar
    of an allowed type, or if no string is allowed, and else a string."""

    def __init__(self, codec: NestedTags, parameters: Mapping[str, Any], marks: Marks) -> None:
        super().__init__(marks, NestedArguments._element)
        self._item = codec.item
        self._begin = marks.encode(codec.namespace) + "<"
        self._close = self._begin + "/"
        self._namespace = self._begin[:-1]
        self._open: tuple[_Open, ...] = (_Open("", Location.root(parameters), "}"),)
        self._begun = False

    def cut(self) -> str:
        if self.finished or self._step is not NestedArguments._raw:
            return ""
        known = self._pending.length_before(self._namespace)
        return escaped(self._pending.text[:known])

    # --- steps ---

    def _element(self) -> str | None:
        """Return a tag that begins a value, or the end tag of the container."""
        outermost = len(self._open) == 1
        text = self._pending.text.lstrip(SPACE)
        if text == self._begin or self._begin.startswith(text):
            return None
        if text.startswith(self._begin) and not text.startswith(self._close):
            self._pending.skip_space()
            self._pending.take(len(self._begin))
            self._step = NestedArguments._name
            opened, self._begun = "" if self._begun else "{", True
            return opened
        if not outermost:
            return self._close_container()
        self.finished = True
        return "}" if self._begun else "{}"

    def _name(self) -> str | None:
        at = self._pending.text.find(">")
        if at < 0:
            return None
        name, outer = self._pending.text[:at], self._open[-1]
        is_array = outer.end == "]"
        if not name.strip() or (is_array and name != self._item):
            raise self._pending.error(f"The tag {name!r} is not expected here.")
        self._pending.check(name)
        if len(self._open) > MAX_DEPTH:
            raise self._pending.error(f"Values are nested deeper than {MAX_DEPTH} levels.")
        self._pending.take(at + 1)
        place = outer.place.member(outer.begun if is_array else name)
        self._open = (*self._open[:-1], outer._replace(begun=outer.begun + 1), _Open(name, place))
        self._step = NestedArguments._value
        separator = ", " if outer.begun else ""
        return separator if is_array else f'{separator}"{escaped(name)}": '

    def _value(self) -> str | None:
        """Decides how the value is written."""
        types = self._open[-1].place.types
        text = self._pending.text
        if "string" not in types:
            text = text.lstrip(SPACE)
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
        """Return a value without text."""
        self._pending.skip_space()
        self._step = NestedArguments._close_tag
        for kind, written in (("string", '""'), ("array", "[]"), ("object", "{}")):
            if kind in types:
                return written
        raise self._pending.error("A value is empty.")

    def _begin_container(self, types: frozenset[str]) -> str | None:
        is_array = "array" in types
        if is_array and "object" in types:
            text = self._pending.text
            at = text.find(">", text.index(self._begin) + len(self._begin))
            if at < 0:
                return None
            is_array = text[:at].endswith(self._begin + self._item)
        self._pending.skip_space()
        end = "]" if is_array else "}"
        self._open = (*self._open[:-1], self._open[-1]._replace(end=end))
        self._step = NestedArguments._element
        return "[" if is_array else "{"

    def _begin_raw(self) -> str:
        self._step = NestedArguments._raw
        return '"'

    def _json(self, types: frozenset[str]) -> str:
        at = self._pending.text.index(self._namespace)
        text = self._pending.text[:at].strip(SPACE)
        kind = {"{": "object", "[": "array"}.get(text[:1])
        if kind not in types and not _JSON.fullmatch(text):
            raise self._pending.error(
                f"A value is not of a type that the schema allows: {text[:60]!r}."
            )
        self._pending.take(at)
        self._step = NestedArguments._close_tag
        return text

    def _raw(self) -> str | None:
        string = self._pending.string_until(self._namespace)
        if string is None or not string[1]:
            return string and string[0]
        self._step = NestedArguments._close_tag
        return f'{string[0]}"'

    def _close_container(self) -> str | None:
        closed = self._open[-1].end
        written = self._close_tag()
        return None if written is None else closed

    def _close_tag(self) -> str | None:
        self._pending.skip_space()
        end = f"{self._close}{self._open[-1].name}>"
        if self._pending.text.startswith(end):
            self._pending.take(len(end))
            self._open = self._open[:-1]
            self._step = NestedArguments._element
            return ""
        if end.startswith(self._pending.text):
            return None
        raise self._pending.error("A value is closed in an unexpected form.")
