"""A compiled grammar and what budgets need to know of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from toolgate_core.schema.walk import subschemas

from .completion import Completion
from .engines.engine import CompiledGrammar, Matcher

UNKNOWN = 24
"""Bytes of a value of which only a pattern or a format is known."""
BESIDE = 16
"""Bytes beside a value and its key that one token can oblige to: braces, quotes, separators."""


@dataclass(frozen=True)
class MeasuredGrammar:
    compiled: CompiledGrammar
    least_tokens: int | None
    """What the shortest way through it takes, as far as one was found."""
    growth: int
    """By how much one token can lengthen the way to its end, in tokens; an estimate from above."""

    @property
    def head(self) -> bytes:
        return self.compiled.head

    def matcher(self) -> Matcher:
        return self.compiled.matcher()


def measure(
    compiled: CompiledGrammar, parameters: dict[str, Any], completion: Completion
) -> MeasuredGrammar:
    """Takes as long as a compile, and longer for some schemas: done in the quarantine."""
    path = completion.path(compiled.matcher())
    return MeasuredGrammar(compiled, None if path is None else len(path), growth(parameters))


def growth(parameters: dict[str, Any]) -> int:
    """A token can begin a member whose value has obligations of its own. A token holds at least
    one byte, so bytes bound tokens."""
    bytes_of = _LeastBytes(parameters)
    values = [bytes_of(sub) for _, sub in subschemas(parameters)]
    keys = [
        len(name.encode(errors="replace"))
        for _, sub in subschemas(parameters)
        if isinstance(sub, dict) and isinstance(sub.get("properties"), dict)
        for name in sub["properties"]
    ]
    return max(values, default=0) + max(keys, default=0) + BESIDE


class _LeastBytes:
    """About as many bytes as the shortest value of a schema takes; of alternatives, the longest.
    Each subschema is looked at once, however often it is referred to."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._known: dict[int, int] = {}

    def __call__(self, schema: Any) -> int:
        if not isinstance(schema, dict):
            return UNKNOWN
        known = self._known.get(id(schema))
        if known is None:
            self._known[id(schema)] = UNKNOWN  # for what refers back to it
            known = self._known[id(schema)] = self._of(schema)
        return known

    def _of(self, schema: dict[str, Any]) -> int:
        branches = [b for word in ("anyOf", "oneOf", "allOf") for b in _list(schema.get(word))]
        if "$ref" in schema:
            branches.append(_resolve(str(schema["$ref"]), self._root))
        return max([self._own(schema), *map(self, branches)])

    def _own(self, schema: dict[str, Any]) -> int:
        if "enum" in schema or "const" in schema:
            values = [*_list(schema.get("enum")), *([schema["const"]] if "const" in schema else [])]
            return max((len(json.dumps(value)) for value in values), default=UNKNOWN)
        properties = schema.get("properties")
        declared = properties if isinstance(properties, dict) else {}
        total = UNKNOWN if schema.keys() & {"pattern", "format"} else 4
        total += _count(schema.get("minLength"))
        for name in _list(schema.get("required")):
            total += len(str(name).encode(errors="replace")) + self(declared.get(name)) + 6
        items = [self(item) for item in _list(schema.get("prefixItems"))]
        if "minItems" in schema:
            items.append(self(schema.get("items", {})))
        total += sum(items) + (max(items, default=0) + 2) * _count(schema.get("minItems"))
        return total + (UNKNOWN + 6) * _count(schema.get("minProperties"))


def _resolve(reference: str, root: dict[str, Any]) -> Any:
    found: Any = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) and name else found
    return found


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0
