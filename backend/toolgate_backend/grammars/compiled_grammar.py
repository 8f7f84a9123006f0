"""A compiled grammar with the measurements that token budgets need."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from toolgate_core import grammar_key
from toolgate_core.schema.walk import subschemas
from toolgate_core.wire import NO_HINTS, Hints

from .completions.hints import hints_of
from .completions.scan import Scan
from .completions.search import Completion
from .engines.engine import CompiledGrammar, Matcher
from .usual_length import extra_tokens
from .value_limits import ValueLimits, limits_of

UNKNOWN_VALUE_BYTES = 24
"""Assumed bytes of a value that only has a pattern or a format."""
STRUCTURE_BYTES = 16
"""Bytes of structure around a value and its key that one token can require: braces, quotes,
separators."""


@dataclass(frozen=True, eq=False)
class MeasuredGrammar:
    compiled: CompiledGrammar
    least_tokens: int | None
    """Length of the shortest completion that was found; None if none was found."""
    growth: int
    """Upper estimate of the number of tokens by which one token can lengthen the completion."""
    name: str = ""
    """The tool's name; `grammar_key.CONTENT` for the content."""
    extra_tokens: int = 0
    """By how many tokens a usual call is longer than the shortest one (usual_length.py)."""
    hints: Hints = NO_HINTS
    """For the search for completions."""
    limits: ValueLimits | None = None
    """Of numbers; None for grammars of text, in which digits are no numbers."""

    @property
    def fixed_prefix(self) -> bytes:
        return self.compiled.fixed_prefix

    def matcher(self) -> Matcher:
        return self.compiled.matcher()


def measure(
    compiled: CompiledGrammar, name: str, parameters: dict[str, Any], completion: Completion
) -> MeasuredGrammar:
    """Takes as long as a compile, or longer for some schemas. Called in the quarantine process."""
    scan = Scan() if name == grammar_key.CONTENT else completion.call_scan
    tried = hints_of(parameters, completion.cost)
    found = [
        (len(path), each)
        for each in tried
        if (path := completion.path(compiled.matcher(), scan, each)) is not None
    ]
    least_tokens, hints = min(found, key=lambda each: each[0], default=(None, tried[0]))
    extra = extra_tokens(parameters)
    limits = limits_of(compiled, parameters)
    return MeasuredGrammar(compiled, least_tokens, growth(parameters), name, extra, hints, limits)


def growth(parameters: dict[str, Any]) -> int:
    """Upper estimate of the growth of the completion by one token, which can begin a member with a
    required value. The estimate counts bytes, because a token has at least one byte."""
    minimum_bytes = _MinimumBytes(parameters)
    values = [minimum_bytes(sub) for _, sub in subschemas(parameters)]
    keys = [
        len(name.encode(errors="replace"))
        for _, sub in subschemas(parameters)
        if isinstance(sub, dict) and isinstance(sub.get("properties"), dict)
        for name in sub["properties"]
    ]
    return max(values, default=0) + max(keys, default=0) + STRUCTURE_BYTES


class _MinimumBytes:
    """The approximate length in bytes of the shortest value of a schema; of alternatives, the
    longest. Each subschema is visited once, however often it is referenced."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._known: dict[int, int] = {}

    def __call__(self, schema: Any) -> int:
        if not isinstance(schema, dict):
            return UNKNOWN_VALUE_BYTES
        known = self._known.get(id(schema))
        if known is None:
            self._known[id(schema)] = UNKNOWN_VALUE_BYTES  # for references back to this schema
            known = self._known[id(schema)] = self._minimum(schema)
        return known

    def _minimum(self, schema: dict[str, Any]) -> int:
        branches = [
            branch for word in ("anyOf", "oneOf", "allOf") for branch in _list(schema.get(word))
        ]
        if "$ref" in schema:
            branches.append(_resolve(str(schema["$ref"]), self._root))
        return max([self._minimum_of_keywords(schema), *map(self, branches)])

    def _minimum_of_keywords(self, schema: dict[str, Any]) -> int:
        if "enum" in schema or "const" in schema:
            values = [*_list(schema.get("enum")), *([schema["const"]] if "const" in schema else [])]
            return max((len(json.dumps(value)) for value in values), default=UNKNOWN_VALUE_BYTES)
        properties = schema.get("properties")
        declared = properties if isinstance(properties, dict) else {}
        total = UNKNOWN_VALUE_BYTES if schema.keys() & {"pattern", "format"} else 4
        total += _count(schema.get("minLength"))
        for name in _list(schema.get("required")):
            total += len(str(name).encode(errors="replace")) + self(declared.get(name)) + 6
        items = [self(item) for item in _list(schema.get("prefixItems"))]
        if "minItems" in schema:
            items.append(self(schema.get("items", {})))
        total += sum(items) + (max(items, default=0) + 2) * _count(schema.get("minItems"))
        return total + (UNKNOWN_VALUE_BYTES + 6) * _count(schema.get("minProperties"))


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
