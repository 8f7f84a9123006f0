"""The JSON types that the schema of a tool allows for an argument.

Families without type attributes write a string as raw text and all other values as JSON. Reader and
grammar tell the two apart by these types. A text that is read as a scalar, although a string is
allowed in its place, can't be a string: readers decide it by `Scalars`, and grammars forbid it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import reduce
from typing import Any

from ...schema.patterns import matches
from ...schema.walk import at_pointer, pointer_of_ref, type_of

INTEGER = r"-?(?:0|[1-9][0-9]*)"
FRACTION_OR_EXPONENT = r"(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)"
PATTERNS = {
    "null": "null",
    "boolean": "true|false",
    "integer": INTEGER,
    "number": INTEGER + FRACTION_OR_EXPONENT,
}
"""By JSON type: the regular expression of its scalars (RFC 8259 §3 and §6)."""
_DIGITS = re.compile(r"-?[0-9]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]*)?")


class Scalars:
    """The scalars of some JSON types."""

    def __init__(self, types: Collection[str]) -> None:
        self._words = [
            word
            for kind, words in (("null", ("null",)), ("boolean", ("true", "false")))
            if kind in types
            for word in words
        ]
        self._numbers = bool({"integer", "number"} & set(types))
        parts = [pattern for kind, pattern in PATTERNS.items() if kind in types]
        self._pattern = re.compile("|".join(f"(?:{part})" for part in parts)) if parts else None

    def matches(self, text: str) -> bool:
        return self._pattern is not None and self._pattern.fullmatch(text) is not None

    def may_begin_with(self, text: str) -> bool:
        """Whether a scalar may begin with this text. True may be wrong for numbers."""
        if any(word.startswith(text) for word in self._words):
            return True
        return self._numbers and _DIGITS.fullmatch(text) is not None


ALL = frozenset({"string", "null", "boolean", "integer", "number", "object", "array"})
"""`integer` are numbers without fraction and exponent, `number` all others."""
NONE: frozenset[str] = frozenset()
MAX_COMBINED = 256
"""Maximum number of schemas that one value's schema combines. Of 6,657 real ones, none combines
more than 46. The types of others are not read: each argument takes some microseconds for each of
these schemas."""

_Types = frozenset[str]


def argument_types(parameters: Mapping[str, Any], key: str) -> frozenset[str]:
    """The types that the argument `key` can have, as far as the schema tells; `ALL` if the schema
    does not tell anything, or forbids the argument."""
    return TypeReader(parameters).member(parameters, key) or ALL


class TypeReader:
    """Reads one document. The types of a schema are the largest sets that agree with those of all
    schemas that it combines, so they do not depend on the order in which schemas are read, nor on
    references that lead back. Each schema is read once."""

    def __init__(self, document: Any) -> None:
        self._document = document
        self._values: dict[int, _Types] = {}
        """By identity: the types of the values of a schema."""
        self._combined: dict[int, tuple[Mapping[str, Any], list[Mapping[str, Any]]]] = {}
        """By identity: a schema and what it combines."""

    def member(self, schema: Any, key: str | int) -> _Types:
        """The types of the member `key` of the objects that `schema` describes, or of the item
        `key` of the arrays."""
        kind = "object" if isinstance(key, str) else "array"

        def own(each: Mapping[str, Any]) -> _Types:
            if kind not in own_types(each):
                return NONE
            return reduce(frozenset.intersection, map(self.value, own_members(each, key)), ALL)

        return self._types(schema, own, {})

    def value(self, schema: Any) -> _Types:
        """The types of the values that `schema` describes."""
        return self._types(schema, own_types, self._values)

    def combined(self, schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """A schema and all schemas that it combines for the same value, each once. Empty if there
        are more than `MAX_COMBINED`."""
        if id(schema) not in self._combined:
            self._combined[id(schema)] = schema, _combined(schema, self._document)
        return self._combined[id(schema)][1]

    def _types(
        self, schema: Any, own: Callable[[Mapping[str, Any]], _Types], known: dict[int, _Types]
    ) -> _Types:
        """The types of a schema whose own keywords allow `own`. Adds them to `known`."""
        if not isinstance(schema, Mapping):
            return NONE if schema is False else ALL
        if id(schema) not in known:
            new = [each for each in self.combined(schema) if id(each) not in known]
            solver = _Solver(known)
            for each in new:
                solver.add(each, own(each), _groups(each, self._document))
            solver.run()
        return known.get(id(schema), ALL)


class _Solver:
    """Excludes types until all schemas agree. A schema excludes a type if one of its groups of
    branches does, and a group does if all of its branches do. Each exclusion of a branch is passed
    on once, so the steps are in proportion to the size of the schemas."""

    def __init__(self, known: dict[int, _Types]) -> None:
        self._known = known
        self._finished = {**known}
        self._users: dict[int, list[tuple[int, Counter[str]]]] = defaultdict(list)
        """By branch: each schema that has it in a group, and that group's number of branches which
        allow a type, by type."""
        self._excluded: list[tuple[int, _Types]] = []

    def add(self, schema: Mapping[str, Any], own: _Types, groups: Iterable[list[Any]]) -> None:
        self._known[id(schema)] = ALL
        self._exclude(id(schema), ALL - own)
        for group in groups:
            branches = [each for each in group if each is not False]
            allowing = Counter(dict.fromkeys(ALL, len(branches)))
            for each in branches:
                if isinstance(each, Mapping):
                    self._users[id(each)].append((id(schema), allowing))
                    self._pass_on(id(schema), allowing, ALL - self._finished.get(id(each), ALL))
            if not branches:
                self._exclude(id(schema), ALL)

    def run(self) -> None:
        while self._excluded:
            branch, types = self._excluded.pop()
            for user, allowing in self._users[branch]:
                self._pass_on(user, allowing, types)

    def _pass_on(self, user: int, allowing: Counter[str], types: _Types) -> None:
        """One branch of a group excludes more types."""
        allowing.subtract(types)
        self._exclude(user, frozenset(each for each in types if not allowing[each]))

    def _exclude(self, schema: int, types: _Types) -> None:
        new = self._known[schema] & types
        if new:
            self._known[schema] -= new
            self._excluded.append((schema, new))


def _combined(schema: Mapping[str, Any], document: Any) -> list[Mapping[str, Any]]:
    pending: list[Any] = [schema]
    found: dict[int, Mapping[str, Any]] = {}
    while pending:
        each = pending.pop()
        if isinstance(each, Mapping) and id(each) not in found:
            found[id(each)] = each
            if len(found) > MAX_COMBINED:
                return []
            for group in _groups(each, document):
                pending.extend(group)
    return [*found.values()]


def _groups(schema: Mapping[str, Any], document: Any) -> Iterator[list[Any]]:
    """The schemas that `schema` combines. A value satisfies one or more of each group."""
    if (pointer := pointer_of_ref(schema.get("$ref"))) is not None:
        yield [at_pointer(document, pointer)]
    yield from ([each] for each in _list(schema, "allOf"))
    yield from (branches for word in ("anyOf", "oneOf") if (branches := _list(schema, word)))


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


def own_types(schema: Mapping[str, Any]) -> _Types:
    """The types that the keywords of `schema` itself allow."""
    found = ALL
    if "type" in schema:
        listed = schema["type"]
        found = frozenset([listed] if isinstance(listed, str) else listed) & ALL
        if "number" in found:
            found |= {"integer"}
    values = [*_list(schema, "enum")] if "enum" in schema else None
    if "const" in schema:
        values = [schema["const"]]
    return found if values is None else found & types_of(values)


def types_of(values: Iterable[object]) -> _Types:
    """A number such as 3.0 can also be written as an integer."""
    found = {type_of(value) for value in values}
    return frozenset(found | {"integer"} if "number" in found else found)


def _list(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    value = schema.get(keyword)
    return value if isinstance(value, list) else []
