"""Removal of keywords from a schema, so that it accepts more instances and never fewer."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from ...pointer import escape
from ..keywords import CHECKED
from ..patterns import is_maskable
from ..walk import (
    at_pointer,
    deep_copy,
    find_references,
    move_targets_to_defs,
    reachable,
    schemas_in,
)
from .engine_form import NUMERIC, is_exact

TOGETHER = {
    "if": ("if", "then", "else"),
    "contains": ("contains", "minContains", "maxContains"),
    # Without the patterns, members that match one would become additional properties.
    "patternProperties": ("patternProperties", "additionalProperties"),
}
"""Keywords that are removed together with the first one, since their meaning depends on it."""

OPAQUE = frozenset(
    {
        *("contains", "dependentSchemas", "else", "if", "not", "oneOf", "propertyNames"),
        "then",
    }
)
"""Keywords whose content is kept or removed as a whole. Accepting more inside them can mean
accepting less outside."""

_OPAQUE_ONLY = OPAQUE - {"oneOf"}

EVALUATING = frozenset(
    {"$dynamicRef", "contains", "dependentSchemas", "if", "not", "patternProperties"}
)
UNEVALUATED = frozenset({"unevaluatedItems", "unevaluatedProperties"})
"""These refuse members and items that no keyword of `EVALUATING` covers. If one of those keywords
is removed, these must be removed too."""

HARD = frozenset(
    {
        *("$dynamicRef", "contains", "dependentRequired", "dependentSchemas", "if"),
        *("maxProperties", "minProperties", "multipleOf", "not", "oneOf"),
        *("patternProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties"),
        "uniqueItems",
    }
)
"""Keywords that no engine enforces, or only in some combinations."""

_COUNTS = frozenset({"maxItems", "maxLength", "minItems", "minLength"})
MANY = 1_000
"""Counts above this may be refused by an engine."""


@dataclass(frozen=True)
class Occurrence:
    """One occurrence of a keyword in a schema."""

    pointer: str
    """JSON Pointer of the keyword."""
    keyword: str

    @property
    def owner(self) -> str:
        """JSON Pointer of the subschema that has the keyword."""
        return self.pointer.rpartition("/")[0]


def hard_occurrences(schema: Any) -> list[Occurrence]:
    """The occurrences that may have to be removed, in the schema's order. They include those inside
    a `oneOf`, which can become an `anyOf`."""
    return _occurrences(schema, _hard)


def uncertain_occurrences(schema: Any) -> list[Occurrence]:
    """The hard occurrences, and those with values that an engine may not support: patterns that it
    can't parse, counts beyond its limits."""
    return _occurrences(schema, _uncertain)


def _occurrences(schema: Any, is_meant: Callable[[str, Any], bool]) -> list[Occurrence]:
    return [
        Occurrence(f"{pointer}/{escape(keyword)}", keyword)
        for pointer, node in reachable(schema, opaque=_OPAQUE_ONLY)
        for keyword, value in node.items()
        if is_meant(keyword, value)
    ]


def _uncertain(keyword: str, value: Any) -> bool:
    if keyword in HARD or keyword in ("format", "pattern"):
        return True
    if keyword in NUMERIC:
        return not is_exact(value)
    return keyword in _COUNTS and bool(value > MANY)


def _hard(keyword: str, value: Any) -> bool:
    if keyword in HARD:
        return True
    if keyword == "pattern":
        return not is_maskable(value)
    if keyword == "format":
        return value in CHECKED
    return keyword in NUMERIC and not is_exact(value)


def relax(schema: Any, occurrences: Collection[Occurrence]) -> Any:
    """A copy of `schema` without these occurrences, and without the keywords that depend on them.
    `oneOf` becomes `anyOf`. The copy accepts every instance that `schema` accepts."""
    schema = deep_copy(schema)
    references = find_references(schema)
    nodes = [(at_pointer(schema, o.owner), o.keyword) for o in occurrences]
    for node, keyword in nodes:
        if keyword == "oneOf":
            node["allOf"] = [*node.get("allOf", ()), {"anyOf": node["oneOf"]}]
        for removed in TOGETHER.get(keyword, (keyword,)):
            node.pop(removed, None)
        if keyword == "patternProperties":
            node["additionalProperties"] = True  # otherwise, grammars may close the object
    move_targets_to_defs(schema, references)
    return schema


def removed_occurrences(schema: Any, occurrences: Collection[Occurrence]) -> tuple[Occurrence, ...]:
    """All occurrences that `relax` removes for `occurrences`, in the schema's order."""
    found = []
    for pointer, node in reachable(schema, opaque=_OPAQUE_ONLY):
        here = {o.keyword for o in occurrences if o.owner == pointer}
        here = {k for keyword in here for k in TOGETHER.get(keyword, (keyword,)) if k in node}
        found += [Occurrence(f"{pointer}/{escape(k)}", k) for k in node if k in here]
    return tuple(found)


def occurrences_inside(
    schema: Any, occurrence: Occurrence, others: Collection[Occurrence]
) -> set[Occurrence]:
    """If the keyword of `occurrence` is opaque: the occurrences among `others` that are inside it,
    also by reference. They are kept as long as `occurrence` is kept."""
    if occurrence.keyword not in OPAQUE:
        return set()
    node = at_pointer(schema, occurrence.owner)
    inside = {
        id(found)
        for keyword in TOGETHER.get(occurrence.keyword, (occurrence.keyword,))
        if keyword in node
        for start, _ in schemas_in(occurrence.owner, keyword, node[keyword])
        for _, found in reachable(schema, start=start)
    }
    return {o for o in others if id(at_pointer(schema, o.owner)) in inside}
