"""Places in the arguments of a tool, with the types that the schema allows there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .value_types import ALL, NONE, TypeReader, own_members, target_of


class Location:
    """`types` are the types of the value at this place. They are `ALL` if the schema does not tell
    anything, or forbids the value."""

    def __init__(self, document: Any, schemas: tuple[Any, ...], types: frozenset[str]) -> None:
        self._document = document
        self._schemas = schemas
        self.types = types
        self.key = (frozenset(map(id, schemas)), types)
        """Equal for places with the same values."""

    @classmethod
    def root(cls, parameters: Mapping[str, Any]) -> Location:
        return cls(parameters, (parameters,), frozenset({"object"}))

    def member(self, key: str | int) -> Location:
        """The place of a member of the object here, or of an item of the array."""
        reader = TypeReader(self._document)
        types = NONE
        for each in self._schemas:
            types |= reader.member(each, key)
        found: dict[int, Any] = {}
        for each in self._schemas:
            found.update((id(one), one) for one in self._members(each, key, ()))
        return Location(self._document, tuple(found.values()), types or ALL)

    def _members(self, schema: Any, key: str | int, path: tuple[int, ...]) -> Iterator[Any]:
        if not isinstance(schema, Mapping) or id(schema) in path:
            return
        path = (*path, id(schema))
        yield from own_members(schema, key)
        if (target := target_of(schema, self._document)) is not None:
            yield from self._members(target, key, path)
        for keyword in ("allOf", "anyOf", "oneOf"):
            for each in schema.get(keyword, ()):
                yield from self._members(each, key, path)
