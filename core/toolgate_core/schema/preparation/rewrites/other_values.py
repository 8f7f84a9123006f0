"""All values except given ones as alternatives."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from .facts import TYPES

MAX_NUMBERS = 8
MAX_WAYS = 40


def any_of(ways: list[Any]) -> Any:
    """A schema of the values that satisfy at least one of these."""
    if not ways:
        return False
    return ways[0] if len(ways) == 1 else {"anyOf": ways}


def both(one: Any, other: Any) -> Any:
    """A schema of the values that satisfy both."""
    if one in ({}, True):
        return other
    return one if other in ({}, True) else {"allOf": [one, other]}


def item_at(at: int, schema: Any) -> dict[str, Any]:
    """A schema of arrays that have an item at this place, which satisfies a schema."""
    return {"type": "array", "minItems": at + 1, "prefixItems": [*([True] * at), schema]}


def other_values(values: list[Any]) -> Iterator[Any]:
    """Those that have no positive keywords have a `not`."""
    by_kind: dict[str, list[Any]] = {}
    for value in values:
        by_kind.setdefault(_kind(value), []).append(value)
    others = TYPES - by_kind.keys()
    if others:
        yield {"type": sorted(others)}
    for kind, some in by_kind.items():
        if kind == "string":
            yield {"type": "string", "not": {"enum": some}}
        elif kind == "boolean":
            yield from ({"const": each} for each in (True, False) if each not in some)
        elif kind == "number" and len(some) <= MAX_NUMBERS:
            numbers = sorted(set(some))
            yield {"type": "number", "exclusiveMaximum": numbers[0]}
            for low, high in pairwise(numbers):
                yield {"type": "number", "exclusiveMinimum": low, "exclusiveMaximum": high}
            yield {"type": "number", "exclusiveMinimum": numbers[-1]}
        elif kind in ("array", "object"):
            yield from _other_parts(kind, some)
        elif kind != "null":
            yield {"type": kind, "not": {"enum": some}}


def _other_parts(kind: str, values: list[Any]) -> list[Any]:
    """Arrays or objects that differ from each of these."""
    ways: list[Any] = [{}]
    for value in values:
        others = [*(_other_items if kind == "array" else _other_members)(value)]
        if len(ways) * len(others) > MAX_WAYS:
            return [{"type": kind, "not": {"enum": values}}]
        ways = [both(way, other) for way in ways for other in others]
    return ways


def _other_items(value: list[Any]) -> Iterator[Any]:
    if value:
        yield {"type": "array", "maxItems": len(value) - 1}
    yield {"type": "array", "minItems": len(value) + 1}
    for at, item in enumerate(value):
        yield item_at(at, any_of([*other_values([item])]))


def _other_members(value: dict[str, Any]) -> Iterator[Any]:
    yield {"type": "object", "required": [*value], "minProperties": len(value) + 1}
    for name, member in value.items():
        yield {"type": "object", "properties": {name: False}}
        other = any_of([*other_values([member])])
        yield {"type": "object", "required": [name], "properties": {name: other}}


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float):
        return "number"
    return "array" if isinstance(value, list) else "object"
