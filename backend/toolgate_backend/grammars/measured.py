"""A compiled grammar and what budgets need to know of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from toolgate_core.schema.walk import subschemas

from .completion import Completion
from .engine import CompiledGrammar, Matcher

MAX_DEPTH = 12
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
    path = completion.path(compiled.matcher())
    return MeasuredGrammar(compiled, None if path is None else len(path), growth(parameters))


def growth(parameters: dict[str, Any]) -> int:
    """A token can begin a member whose value has obligations of its own. A token holds at least
    one byte, so bytes bound tokens."""
    values = [_least_bytes(sub, parameters, 0) for _, sub in subschemas(parameters)]
    keys = [
        len(name.encode(errors="replace"))
        for _, sub in subschemas(parameters)
        if isinstance(sub, dict) and isinstance(sub.get("properties"), dict)
        for name in sub["properties"]
    ]
    return max(values, default=0) + max(keys, default=0) + BESIDE


def _least_bytes(schema: Any, root: dict[str, Any], depth: int) -> int:
    """About as many bytes as the shortest value of a schema takes; of alternatives, the longest."""
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return UNKNOWN
    branches = [b for word in ("anyOf", "oneOf", "allOf") for b in _list(schema.get(word))]
    if "$ref" in schema:
        branches.append(_resolve(str(schema["$ref"]), root))
    inner = [_least_bytes(branch, root, depth + 1) for branch in branches]
    return max([_own_bytes(schema, root, depth), *inner])


def _own_bytes(schema: dict[str, Any], root: dict[str, Any], depth: int) -> int:
    if "enum" in schema or "const" in schema:
        values = [*_list(schema.get("enum")), *([schema["const"]] if "const" in schema else [])]
        return max((len(json.dumps(value)) for value in values), default=UNKNOWN)
    properties = schema.get("properties")
    declared = properties if isinstance(properties, dict) else {}
    total = UNKNOWN if schema.keys() & {"pattern", "format"} else 4
    total += _count(schema.get("minLength"))
    for name in _list(schema.get("required")):
        value = _least_bytes(declared.get(name), root, depth + 1)
        total += len(str(name).encode(errors="replace")) + value + 6
    items = [_least_bytes(schema.get("items", {}), root, depth + 1)] * bool(schema.get("minItems"))
    items += [_least_bytes(item, root, depth + 1) for item in _list(schema.get("prefixItems"))]
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
