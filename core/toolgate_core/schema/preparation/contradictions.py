"""Schemas without a value: keywords that contradict each other, and parts that no finite value
satisfies, such as a property that requires itself or a $ref to itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import jsonschema_rs
from jsonschema_rs.canonical import UnsatisfiableReason, find_unsatisfiable

from ...errors import SchemaNotEnforceable
from ...pointer import escape
from ..regular.languages import all_of, is_empty, long, matching
from ..walk import at_pointer, deep_copy, pointer_of_ref, subschemas
from .prepare import MAX_SUBSCHEMAS

NAMED = 3
"""Maximum number of keywords that are named together."""


@dataclass(frozen=True)
class Contradiction:
    pointer: str
    """JSON Pointer of a keyword, or of a schema that is `false`."""
    keywords: tuple[str, ...]
    """The keywords of one schema that contradict each other; one that contradicts itself."""

    @property
    def reason(self) -> str:
        if not self.keywords:
            return "no value satisfies it, and it is required"
        if self.keywords == ("pattern",):
            return "no string matches the pattern; write it without delimiters and flags (/…/i)"
        together = " together" if len(self.keywords) > 1 else ""
        return f"no value satisfies {' and '.join(map(repr, self.keywords))}{together}"


def contradiction_in(document: Any) -> Contradiction | None:
    """The innermost contradiction that leaves a schema without a value, as far as one is found. A
    pattern that no string matches is one wherever it is, because it is never meant."""
    for pointer, node in islice(subschemas(document), MAX_SUBSCHEMAS):
        is_text = isinstance(node, dict) and "string" in node.get("type", ())
        if is_text and "pattern" in node and is_empty(matching(node["pattern"])):
            return Contradiction(f"{pointer}/pattern", ("pattern",))
    empty = _empty_schemas(document)
    if "" not in empty:
        return None
    pointer, seen = "", set[str]()
    while pointer not in seen:
        seen.add(pointer)
        needed = _needed(pointer, at_pointer(document, pointer), empty)
        pointer = next((each for each in needed if each in empty), pointer)
    keywords, node = empty[pointer], at_pointer(document, pointer)
    if not isinstance(node, dict):
        return Contradiction(pointer, ()) if pointer else None
    named = tuple(each for each in node if each in keywords)
    if len(named) > 2:
        named = tuple(each for each in named if each != "type")
    if not 0 < len(named) <= NAMED:
        return None
    return Contradiction(f"{pointer}/{escape(named[0])}", named)


def _empty_schemas(document: Any) -> dict[str, set[str]]:
    """By JSON Pointer: the subschemas without a value, as far as they are found, each with the
    keywords that contradict each other."""
    if sum(1 for _ in islice(subschemas(document), MAX_SUBSCHEMAS + 1)) > MAX_SUBSCHEMAS:
        return {}
    try:
        found = find_unsatisfiable(document, validate_formats=True, offline=True)
        too_long = {p: keywords for p, n in subschemas(document) if (keywords := _lengths(n))}
        if too_long:
            document = deep_copy(document)
            for pointer in too_long:
                at_pointer(document, pointer)["enum"] = []
            found = find_unsatisfiable(document, validate_formats=True, offline=True)
    except (ValueError, jsonschema_rs.ReferencingError, jsonschema_rs.ValidationError):
        return {}  # not a valid schema, which `prepare` refuses
    return {pointer: _keywords(pointer, reason) for pointer, reason in found.items()} | too_long


def _lengths(node: Any) -> set[str] | None:
    """The keywords of a string whose lengths contradict its pattern."""
    if not isinstance(node, dict) or node.get("type") != "string" or "pattern" not in node:
        return None
    strings, least = matching(node["pattern"]), int(node.get("minLength", 0))
    if "maxLength" in node and is_empty(all_of(strings, long(0, int(node["maxLength"])))):
        return {"maxLength", "pattern"}
    return {"minLength", "pattern"} if least and is_empty(all_of(strings, long(least))) else None


def _keywords(pointer: str, reason: UnsatisfiableReason) -> set[str]:
    match reason:
        case UnsatisfiableReason.Conflict(causes):
            pass
        case UnsatisfiableReason.Empty(cause):
            causes = [cause]
        case _:
            causes = []
    found = {keyword for each in causes if each.pointer == pointer for keyword in each.keywords}
    inside = [each.pointer for each in causes if each.pointer.startswith(f"{pointer}/")]
    return found | {each.removeprefix(pointer).split("/")[1] for each in inside}


def _needed(pointer: str, node: Any, empty: Mapping[str, object]) -> Iterator[str]:
    """The schemas in a node that have to have a value, so that it has one. Of alternatives that
    have none, the first."""
    if not isinstance(node, dict):
        return
    target = pointer_of_ref(node.get("$ref"))
    if target is not None:
        yield target
    yield from (f"{pointer}/allOf/{at}" for at in range(len(node.get("allOf", ()))))
    for keyword in ("anyOf", "oneOf"):
        options: Sequence[Any] = node.get(keyword, ())
        if all(f"{pointer}/{keyword}/{at}" in empty for at in range(len(options))):
            yield f"{pointer}/{keyword}/0"
    if node.get("type") == "object":
        for name in node.get("required", ()):
            yield f"{pointer}/properties/{escape(name)}"
    if node.get("type") == "array" and node.get("minItems", 0) > 0:
        yield f"{pointer}/{'prefixItems/0' if node.get('prefixItems') else 'items'}"


Graph = dict[str, list[set[str]]]
"""By the JSON Pointer of a subschema: its requirements (`_requirements`)."""


def without_endless(parameters: dict[str, Any]) -> dict[str, Any]:
    """The schema with `false` for each subschema that no finite value satisfies. The given one if
    there is none. Raises SchemaNotEnforceable, with the JSON Pointer of the cause, if no finite
    value satisfies the whole schema.

    The engines accept such schemas, and a constrained model then writes until its tokens are used
    up. The detection is a least fixed point over the schema's graph, without recursion. It
    considers only required parts, and treats other keywords as satisfiable. No satisfiable schema
    is refused: members, items and alternatives that no finite value satisfies are forbidden, if the
    rest has a value."""
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
