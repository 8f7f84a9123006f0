"""Detection of schemas that no finite value satisfies, such as a property that requires itself or a
$ref to itself.

The engines accept such schemas, and a constrained model then writes until its tokens are used up.
The detection is a least fixed point over the schema's graph, without recursion. It considers only
required parts, and treats other keywords as satisfiable. No satisfiable schema is refused: members,
items and alternatives that no finite value satisfies are forbidden, if the rest has a value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from ...errors import SchemaNotEnforceable
from ...pointer import escape
from ..walk import at_pointer, deep_copy, pointer_of_ref, subschemas

Graph = dict[str, list[set[str]]]
"""By the JSON Pointer of a subschema: its requirements (`_requirements`)."""


def without_endless(parameters: dict[str, Any]) -> dict[str, Any]:
    """The schema with `false` for each subschema that no finite value satisfies. The given one if
    there is none. Raises SchemaNotEnforceable, with the JSON Pointer of the cause, if no finite
    value satisfies the whole schema."""
    graph: Graph = {
        pointer: [*_requirements(pointer, schema)]
        for pointer, schema in subschemas(parameters)
        if isinstance(schema, dict)
    }
    endless = _unsatisfiable_pointers(graph)
    if "" in endless:
        raise SchemaNotEnforceable("no finite value satisfies it", pointer=_cause(graph, endless))
    if not endless:
        return parameters
    copy: dict[str, Any] = deep_copy(parameters)
    for pointer in sorted(endless, key=len):  # a schema before those inside it
        holder, _, last = pointer.rpartition("/")
        try:
            inside = at_pointer(copy, holder)
        except LookupError:
            continue  # a schema around it is false already
        if isinstance(inside, list):
            inside[int(last)] = False
        elif isinstance(inside, dict):
            inside[last.replace("~1", "/").replace("~0", "~")] = False
    return copy


def _cause(graph: Graph, endless: set[str]) -> str:
    """The first schema on the way from the root that needs itself."""
    seen: dict[str, None] = {}
    pointer = ""
    while pointer not in seen:
        seen[pointer] = None
        needed = next(each for each in graph[pointer] if each <= endless)
        pointer = min(needed)
    return pointer


def _unsatisfiable_pointers(graph: Graph) -> set[str]:
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
