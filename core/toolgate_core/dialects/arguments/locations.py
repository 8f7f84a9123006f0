"""Places in the arguments of a tool, with the types that the schema allows there."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from .value_types import ALL, NONE, TypeReader, own_members


class Location:
    """`types` are the types of the value at this place. They are `ALL` if the schema does not tell
    anything, or forbids the value."""

    def __init__(
        self, whole: _Document, schemas: tuple[Any, ...], types: frozenset[str] = ALL
    ) -> None:
        self._whole = whole
        self._schema = {"anyOf": [*schemas]}
        self.types = types
        self.key = (frozenset(map(id, schemas)), types)
        """Equal for places with the same values."""

    @classmethod
    def root(cls, parameters: Mapping[str, Any]) -> Location:
        return cls(_Document(parameters), (parameters,), frozenset({"object"}))

    def member(self, key: str | int) -> Location:
        """The place of a member of the object here, or of an item of the array."""
        if isinstance(key, int):
            key = min(key, self._prefix)
        known = self._whole.members
        if (self.key, key) not in known:
            known[self.key, key] = self._member(key)
        return known[self.key, key]

    def _member(self, key: str | int) -> Location:
        types = self._whole.reader.member(self._schema, key) if self._schema["anyOf"] else NONE
        found = {id(one): one for each in self._combined for one in own_members(each, key)}
        return Location(self._whole, tuple(found.values()), types or ALL)

    @property
    def _combined(self) -> list[Mapping[str, Any]]:
        return self._whole.reader.combined(self._schema)

    @cached_property
    def _prefix(self) -> int:
        """The number of items that have schemas of their own."""
        first = (each.get("prefixItems") for each in self._combined)
        return max((len(each) for each in first if isinstance(each, list)), default=0)


class _Document:
    """The schema of all arguments, and what was read in it."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.reader = TypeReader(schema)
        self.members: dict[tuple[object, str | int], Location] = {}
