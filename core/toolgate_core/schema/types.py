"""The JSON types of the values that a schema allows, as far as its keywords tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from typing import Any

from .patterns import matches
from .walk import at_pointer, pointer_of_ref

Types = frozenset[str]
ALL = frozenset({"string", "null", "boolean", "integer", "number", "object", "array"})
"""`integer` are numbers without fraction and exponent, `number` all others."""
NONE: Types = frozenset()
MAX_COMBINED = 256
"""Maximum number of schemas that one value's schema combines. Of 6,657 real ones, none combines
more than 46. The types of others are not read: each argument takes some microseconds for each of
these schemas."""
MAX_ROUNDS = 16
"""Maximum number of visits of the schemas that a schema combines. More than two are needed only if
they refer to each other in circles; then they may allow more types than could be known."""


class TypeReader:
    """Reads one document. The types of a schema are the largest sets that agree with those of all
    schemas that it combines, so they do not depend on the order in which schemas are read, nor on
    references that lead back."""

    def __init__(self, document: Any) -> None:
        self._document = document
        self._values: dict[int, Types] = {}
        """By identity: the types of the values of a schema."""
        self._combined: dict[int, tuple[Mapping[str, Any], list[Mapping[str, Any]]]] = {}
        """By identity: a schema and what it combines."""

    def member(self, schema: Any, key: str | int) -> Types:
        """Return the types of the member `key` of the objects that `schema` describes, or of the
        item `key` of the arrays."""
        kind = "object" if isinstance(key, str) else "array"

        def direct(combined: Mapping[str, Any]) -> Types:
            if kind not in own_types(combined):
                return NONE
            return reduce(frozenset.intersection, map(self.value, own_members(combined, key)), ALL)

        return self._types(schema, direct, {})

    def value(self, schema: Any) -> Types:
        """Return the types of the values that `schema` describes."""
        return self._types(schema, own_types, self._values)

    def combined(self, schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Return a schema and all schemas that it combines for the same value, each once. Empty if
        there are more than `MAX_COMBINED`."""
        if id(schema) not in self._combined:
            self._combined[id(schema)] = schema, _combined(schema, self._document)
        return self._combined[id(schema)][1]

    def _types(
        self, schema: Any, direct: Callable[[Mapping[str, Any]], Types], known: dict[int, Types]
    ) -> Types:
        """Return the types of a schema whose own keywords allow `direct`. Adds them to `known`."""
        if not isinstance(schema, Mapping):
            return NONE if schema is False else ALL
        if id(schema) not in known:
            new = [combined for combined in self.combined(schema) if id(combined) not in known]
            known.update((id(combined), direct(combined)) for combined in new)
            for _ in range(MAX_ROUNDS):
                before = [known[id(combined)] for combined in new]
                for combined in reversed(new):  # a schema after those that it combines
                    for group in _groups(combined, self._document):
                        ways = (NONE if way is False else known.get(id(way), ALL) for way in group)
                        known[id(combined)] &= NONE.union(*ways)
                if before == [known[id(combined)] for combined in new]:
                    break
        return known.get(id(schema), ALL)


def argument_types(parameters: Mapping[str, Any], key: str) -> frozenset[str]:
    """Return the types that the argument `key` can have, as far as the schema tells; `ALL` if the
    schema does not tell anything, or forbids the argument."""
    return TypeReader(parameters).member(parameters, key) or ALL


def _combined(schema: Mapping[str, Any], document: Any) -> list[Mapping[str, Any]]:
    pending: list[Any] = [schema]
    combined: dict[int, Mapping[str, Any]] = {}
    while pending:
        subschema = pending.pop()
        if isinstance(subschema, Mapping) and id(subschema) not in combined:
            combined[id(subschema)] = subschema
            if len(combined) > MAX_COMBINED:
                return []
            for group in _groups(subschema, document):
                pending.extend(group)
    return [*combined.values()]


def _groups(schema: Mapping[str, Any], document: Any) -> Iterator[list[Any]]:
    """Yield the schemas that `schema` combines. A value satisfies one or more of each group."""
    if (pointer := pointer_of_ref(schema.get("$ref"))) is not None:
        yield [at_pointer(document, pointer)]
    yield from ([each] for each in _list(schema, "allOf"))
    yield from (branches for word in ("anyOf", "oneOf") if (branches := _list(schema, word)))


def own_members(schema: Mapping[str, Any], key: str | int) -> list[Any]:
    """Return the schemas of a member or item that `schema` itself has, without references and
    others that it combines."""
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


def own_types(schema: Mapping[str, Any]) -> Types:
    """Return the types that the keywords of `schema` itself allow."""
    types = ALL
    if "type" in schema:
        listed = schema["type"]
        types = frozenset([listed] if isinstance(listed, str) else listed) & ALL
        if "number" in types:
            types |= {"integer"}
    values = [*_list(schema, "enum")] if "enum" in schema else None
    if "const" in schema:
        values = [schema["const"]]
    return types if values is None else types & types_of(values)


_TYPE_NAMES: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    type(None): "null",
}


def type_of(value: object) -> str:
    """Return the name of a JSON value's type, with `integer` apart from `number`."""
    return _TYPE_NAMES.get(type(value), "object")


def types_of(values: Iterable[object]) -> Types:
    """Return a number such as 3.0 can also be written as an integer."""
    types = {type_of(value) for value in values}
    return frozenset(types | {"integer"} if "number" in types else types)


def _list(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    value = schema.get(keyword)
    return value if isinstance(value, list) else []
