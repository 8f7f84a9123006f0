"""The keywords for which no value satisfies a schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import jsonschema_rs
from jsonschema_rs.canonical import UnsatisfiableReason, find_unsatisfiable

from ...pointer import escape
from ..regular.languages import Long, Matching
from ..walk import at_pointer, deep_copy, pointer_of_ref, subschemas
from .removal import MAX_SUBSCHEMAS

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
        together = " together" if len(self.keywords) > 1 else ""
        return f"no value satisfies {' and '.join(map(repr, self.keywords))}{together}"


def contradiction_in(document: Any) -> Contradiction | None:
    """The innermost contradiction that leaves a schema without a value, as far as one is found."""
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
    matching, least = Matching(node["pattern"]), node.get("minLength", 0)
    if "maxLength" in node and (matching & Long(0, int(node["maxLength"]))).is_empty:
        return {"maxLength", "pattern"}
    return {"minLength", "pattern"} if least and (matching & Long(int(least))).is_empty else None


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
