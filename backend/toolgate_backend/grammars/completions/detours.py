"""How much longer values become through each schema: nothing on the way to the shortest value, and
more through longer alternatives of `anyOf` and `oneOf`.

Lengths are about those of JSON, in bytes. They only compare alternatives.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from toolgate_core.schema.walk import at_pointer, children, pointer_of_ref

ENDLESS = 10_000
"""Length of a value that is not known, or does not exist."""
MAX_LISTED = 200
"""Maximum number of values of an `enum` that are looked at."""
_MEMBER = 6
"""Length of what is around a member: quotation marks, colon, comma."""
_SCALARS = {"boolean": 4, "integer": 1, "null": 4, "number": 1}
_OF_OBJECTS = frozenset({"properties", "required"})


class Detour(NamedTuple):
    length: int
    chosen: bool
    """Whether the schema is one of several alternatives, or inside one."""


NOT_USED = Detour(ENDLESS, False)


def detours(parameters: dict[str, Any]) -> dict[int, Detour]:
    """By identity of each schema that applies to a value: how much longer the value becomes. Empty
    if the schema is nested too deeply."""
    lengths = _Lengths(parameters)
    found: dict[int, Detour] = {}
    pending = [(Detour(0, False), 0, parameters)]
    pushed = 0
    try:
        while pending:
            detour, _, schema = heapq.heappop(pending)
            if id(schema) in found:
                continue
            found[id(schema)] = detour
            for more, inside in _inside(schema, parameters, lengths):
                pushed += 1
                after = Detour(detour.length + more.length, detour.chosen or more.chosen)
                heapq.heappush(pending, (after, pushed, inside))
    except RecursionError:
        return {}
    return found


def _inside(
    schema: dict[str, Any], root: dict[str, Any], lengths: _Lengths
) -> Iterator[tuple[Detour, dict[str, Any]]]:
    """The schemas directly inside a schema, each with the detour through it."""
    alternatives: dict[int, Detour] = {}
    for keyword in ("anyOf", "oneOf"):
        branches = [each for each in schema.get(keyword, ()) if isinstance(each, dict)]
        shortest = min(map(lengths.of, branches), default=0)
        alternatives |= {id(each): Detour(lengths.of(each) - shortest, True) for each in branches}
    if (target := pointer_of_ref(schema.get("$ref"))) is not None:
        referred = at_pointer(root, target)
        if isinstance(referred, dict):
            yield Detour(0, False), referred
    for pointer, inside in children("", schema):
        if isinstance(inside, dict) and not pointer.startswith("/$defs/"):
            yield alternatives.get(id(inside), Detour(0, False)), inside


class _Lengths:
    """About the length of the shortest value of each schema, which is looked at once."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._known: dict[int, int] = {}

    def of(self, schema: Any) -> int:
        if not isinstance(schema, dict):
            return ENDLESS if schema is False else 1
        if id(schema) not in self._known:
            self._known[id(schema)] = ENDLESS  # for references back to this schema
            self._known[id(schema)] = min(ENDLESS, self._of(schema))
        return self._known[id(schema)]

    def _of(self, schema: dict[str, Any]) -> int:
        if "const" in schema:
            return len(json.dumps(schema["const"]))
        if listed := schema.get("enum"):
            return min(len(json.dumps(value)) for value in listed[:MAX_LISTED])
        length = self._of_types(schema)
        if (target := pointer_of_ref(schema.get("$ref"))) is not None:
            length += self.of(at_pointer(self._root, target))
        for keyword in ("anyOf", "oneOf"):
            length += min(map(self.of, schema.get(keyword, ())), default=0)
        return length + sum(map(self.of, schema.get("allOf", ())))

    def _of_types(self, schema: dict[str, Any]) -> int:
        given = schema.get("type", "object" if schema.keys() & _OF_OBJECTS else ())
        kinds = [given] if isinstance(given, str) else given
        return min((self._of_type(kind, schema) for kind in kinds), default=0)

    def _of_type(self, kind: str, schema: dict[str, Any]) -> int:
        match kind:
            case "string":
                has_text = bool(schema.keys() & {"format", "pattern"})
                return 2 + has_text + _count(schema.get("minLength"))
            case "array":
                least = _count(schema.get("minItems"))
                return 2 + (least and least * (2 + self.of(schema.get("items", True))))
            case "object":
                declared = schema.get("properties", {})
                names = schema.get("required", ())
                values = (self.of(declared.get(name, True)) for name in names)
                return 2 + sum(map(len, names)) + _MEMBER * len(names) + sum(values)
        return _SCALARS.get(kind, 1)


def _count(value: object) -> int:
    return min(int(value), ENDLESS) if isinstance(value, int | float) else 0
