"""The JSON types that the schema of a tool allows for an argument.

Families without type attributes write a string as raw text and all other values as JSON. Reader and
grammar tell the two apart by these types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any

from toolgate_core.schema.pattern_samples import matches

ALL = frozenset({"string", "null", "boolean", "integer", "number", "object", "array"})
"""`integer` are numbers without fraction and exponent, `number` all others."""
NONE: frozenset[str] = frozenset()

_Types = frozenset[str]


def argument_types(parameters: Mapping[str, Any], key: str) -> frozenset[str]:
    """The types that the argument `key` can have, as far as the schema tells; `ALL` if the schema
    does not tell anything, or forbids the argument."""
    return TypeReader(parameters).member(parameters, key) or ALL


class TypeReader:
    """Reads one document. References are followed once on each path, so that recursion ends."""

    def __init__(self, document: Any) -> None:
        self._document = document
        self._visited: list[Any] = []
        self._visited_for_members: list[Any] = []

    def member(self, schema: Any, key: str | int) -> _Types:
        """The types of the member `key` of the objects that `schema` describes, or of the item
        `key` of the arrays."""
        if not isinstance(schema, Mapping):
            return NONE if schema is False else ALL
        if ("object" if isinstance(key, str) else "array") not in _own_types(schema):
            return NONE
        if any(each is schema for each in self._visited_for_members):
            return ALL
        self._visited_for_members.append(schema)
        try:
            found = self._own_member(schema, key)
            if (target := self._target(schema)) is not None:
                found &= self.member(target, key)
            for each in _list(schema, "allOf"):
                found &= self.member(each, key)
            for keyword in ("anyOf", "oneOf"):
                if branches := _list(schema, keyword):
                    found &= _union(self.member(each, key) for each in branches)
            return found
        finally:
            self._visited_for_members.pop()

    def value(self, schema: Any) -> _Types:
        """The types of the values that `schema` describes."""
        if not isinstance(schema, Mapping):
            return NONE if schema is False else ALL
        if any(each is schema for each in self._visited):
            return ALL
        self._visited.append(schema)
        try:
            found = _own_types(schema)
            if (target := self._target(schema)) is not None:
                found &= self.value(target)
            for each in _list(schema, "allOf"):
                found &= self.value(each)
            for keyword in ("anyOf", "oneOf"):
                if branches := _list(schema, keyword):
                    found &= _union(self.value(each) for each in branches)
            return found
        finally:
            self._visited.pop()

    def _own_member(self, schema: Mapping[str, Any], key: str | int) -> _Types:
        return reduce(frozenset.intersection, map(self.value, own_members(schema, key)), ALL)

    def _target(self, schema: Mapping[str, Any]) -> Any:
        """The target of a local reference; None if there is none."""
        return target_of(schema, self._document)


def own_members(schema: Mapping[str, Any], key: str | int) -> list[Any]:
    """The schemas of a member or item that `schema` itself has, without references and others that
    it combines."""
    if isinstance(key, int):
        first = _list(schema, "prefixItems")
        if key < len(first):
            return [first[key]]
        return [schema["items"]] if "items" in schema else []
    schemas = []
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and key in properties:
        schemas.append(properties[key])
    patterns = schema.get("patternProperties")
    if isinstance(patterns, Mapping):
        schemas += [each for pattern, each in patterns.items() if matches(pattern, key)]
    if not schemas and "additionalProperties" in schema:
        schemas.append(schema["additionalProperties"])
    return schemas


def target_of(schema: Mapping[str, Any], document: Any) -> Any:
    """The target of a local reference; None if there is none."""
    ref = schema.get("$ref")
    if not isinstance(ref, str) or not ref.startswith("#"):
        return None
    target = document
    for step in ref[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        try:
            target = target[int(name)] if isinstance(target, list) else target[name]
        except (KeyError, IndexError, ValueError, TypeError):
            return None
    return target


def type_of(value: object) -> str:
    """The name of a JSON value's type, with `integer` apart from `number`."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if value is None:
        return "null"
    kinds: tuple[tuple[type, str], ...] = ((float, "number"), (str, "string"), (list, "array"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "object")


def _own_types(schema: Mapping[str, Any]) -> _Types:
    found = ALL
    if "type" in schema:
        listed = schema["type"]
        found = frozenset([listed] if isinstance(listed, str) else listed) & ALL
        if "number" in found:
            found |= {"integer"}
    values = [*_list(schema, "enum")] if "enum" in schema else None
    if "const" in schema:
        values = [schema["const"]]
    return found if values is None else found & _types_of(values)


def _types_of(values: Iterable[object]) -> _Types:
    """A number such as 3.0 can also be written as an integer."""
    found = {type_of(value) for value in values}
    return frozenset(found | {"integer"} if "number" in found else found)


def _list(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    value = schema.get(keyword)
    return value if isinstance(value, list) else []


def _union(types: Iterable[_Types]) -> _Types:
    return frozenset().union(*types)
