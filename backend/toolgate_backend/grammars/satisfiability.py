"""Schemas that no finite value satisfies: a property that requires itself, a $ref to itself.

The engines take them, and a model held to one writes until its tokens are spent. Found as a least
fixed point over the schema's graph, without recursion. Only what must be there counts; a keyword
that is not followed is taken for satisfiable, so nothing sound is refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from toolgate_core.pointer import escape
from toolgate_core.schema.keywords import DEFINITIONS
from toolgate_core.schema.walk import pointed, subschemas, under

_CONDITIONS = frozenset({"not", "if", *DEFINITIONS})
"""What stands below these is met by no value by itself; what is used of it is so through a $ref."""


def find_endless(parameters: dict[str, Any]) -> str | None:
    """JSON Pointer of the first subschema that no finite value satisfies."""
    graph = {
        pointer: [*_needs(pointer, schema)]
        for pointer, schema in subschemas(parameters)
        if isinstance(schema, dict)
    }
    endless = _without_end(graph)
    return next((p for p in _unconditional(parameters) if p in endless), None)


def _without_end(graph: dict[str, list[set[str]]]) -> set[str]:
    """Those of which a need is never met: none that it is of ends. Each edge is looked at once."""
    unmet = {pointer: {*range(len(needs))} for pointer, needs in graph.items()}
    waiting: dict[str, list[tuple[str, int]]] = defaultdict(list)
    """By pointer: whose needs it would meet, and the number of each."""
    ended = [pointer for pointer, needs in graph.items() if not needs]

    def meet(pointer: str, at: int) -> None:
        if at in unmet[pointer]:
            unmet[pointer].remove(at)
            if not unmet[pointer]:
                ended.append(pointer)

    for pointer, needs in graph.items():
        for at, need in enumerate(needs):
            if any(each not in graph for each in need):
                meet(pointer, at)
            for each in need:
                waiting[each].append((pointer, at))
    for each in ended:  # which grows meanwhile
        for pointer, at in waiting[each]:
            meet(pointer, at)
    return graph.keys() - set(ended)


def _needs(pointer: str, schema: dict[str, Any]) -> Iterator[set[str]]:
    """Sets of subschemas, by pointer: the schema is endless where all of one set are."""
    if "enum" in schema or "const" in schema:
        return
    reference = pointed(schema.get("$ref"))
    if reference is not None:
        yield {reference}
    for keyword in ("anyOf", "oneOf"):
        branches = schema.get(keyword)
        if isinstance(branches, list) and branches:
            yield {f"{pointer}/{keyword}/{at}" for at in range(len(branches))}
    if isinstance(schema.get("allOf"), list):
        yield from ({f"{pointer}/allOf/{at}"} for at in range(len(schema["allOf"])))
    if schema.get("type") == "object" and isinstance(schema.get("properties"), dict):
        for name in schema.get("required") or ():
            if name in schema["properties"]:
                escaped = escape(name)
                yield {f"{pointer}/properties/{escaped}"}
    least = schema.get("minItems")
    if schema.get("type") == "array" and isinstance(least, int | float):
        prefix = len(schema.get("prefixItems") or ())
        yield from ({f"{pointer}/prefixItems/{at}"} for at in range(min(prefix, int(least))))
        if least > prefix:
            yield {f"{pointer}/items"}


def _unconditional(schema: dict[str, Any]) -> Iterator[str]:
    """The subschemas, by pointer and in their order, that stand below no condition."""
    pending: list[tuple[str, Any]] = [("", schema)]
    while pending:
        pointer, node = pending.pop()
        yield pointer
        if isinstance(node, dict):
            for keyword, value in reversed(node.items()):
                if keyword not in _CONDITIONS:
                    pending.extend(reversed([*under(pointer, keyword, value)]))
