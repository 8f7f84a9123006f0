"""Detection of schemas that no finite value satisfies, such as a property that requires itself or a
$ref to itself.

The engines accept such schemas, and a constrained model then writes until its tokens are used up.
The detection is a least fixed point over the schema's graph, without recursion. It considers only
required parts, and treats other keywords as satisfiable. No satisfiable schema is refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from toolgate_core.pointer import escape
from toolgate_core.schema.keywords import DEFINITIONS
from toolgate_core.schema.walk import pointer_of_ref, schemas_in, subschemas

_CONDITIONS = frozenset({"not", "if", *DEFINITIONS})
"""Subschemas below these keywords need not be satisfiable by themselves. If one of them is used, a
$ref leads to it."""


def find_unsatisfiable(parameters: dict[str, Any]) -> str | None:
    """The JSON Pointer of the first subschema that no finite value satisfies; None if there is
    none."""
    graph = {
        pointer: [*_requirements(pointer, schema)]
        for pointer, schema in subschemas(parameters)
        if isinstance(schema, dict)
    }
    unsatisfiable = _unsatisfiable_pointers(graph)
    return next((p for p in _unconditional(parameters) if p in unsatisfiable), None)


def _unsatisfiable_pointers(graph: dict[str, list[set[str]]]) -> set[str]:
    """The subschemas with a requirement that is never satisfied. Each edge is visited once."""
    unsatisfied = {pointer: {*range(len(requirements))} for pointer, requirements in graph.items()}
    dependents: dict[str, list[tuple[str, int]]] = defaultdict(list)
    """By pointer: the subschemas whose requirements it satisfies, with the requirement's index."""
    satisfied = [pointer for pointer, requirements in graph.items() if not requirements]

    def satisfy(pointer: str, at: int) -> None:
        if at in unsatisfied[pointer]:
            unsatisfied[pointer].remove(at)
            if not unsatisfied[pointer]:
                satisfied.append(pointer)

    for pointer, requirements in graph.items():
        for at, alternatives in enumerate(requirements):
            if any(each not in graph for each in alternatives):
                satisfy(pointer, at)
            for each in alternatives:
                dependents[each].append((pointer, at))
    for each in satisfied:  # the list grows during the loop
        for pointer, at in dependents[each]:
            satisfy(pointer, at)
    return graph.keys() - set(satisfied)


def _requirements(pointer: str, schema: dict[str, Any]) -> Iterator[set[str]]:
    """The requirements of a schema: each is a set of pointers, one of which must be satisfiable."""
    if "enum" in schema or "const" in schema:
        return
    reference = pointer_of_ref(schema.get("$ref"))
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
    """The pointers of the subschemas that are below no such keyword, in their order."""
    pending: list[tuple[str, Any]] = [("", schema)]
    while pending:
        pointer, node = pending.pop()
        yield pointer
        if isinstance(node, dict):
            for keyword, value in reversed(node.items()):
                if keyword not in _CONDITIONS:
                    pending.extend(reversed([*schemas_in(pointer, keyword, value)]))
