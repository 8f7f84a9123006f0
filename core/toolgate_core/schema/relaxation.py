"""Taking keywords out of a schema so that it admits more and never less."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from ..pointer import escape
from .formats import CHECKED
from .refs import gathered, links
from .strings import holdable
from .unsupported import NUMERIC, exact
from .walk import at_pointer, copied, reachable, under

TOGETHER = {
    "if": ("if", "then", "else"),
    "contains": ("contains", "minContains", "maxContains"),
    # Members that match a pattern are not additional ones: without it all of them would be.
    "patternProperties": ("patternProperties", "additionalProperties"),
}
"""Keywords that mean nothing, or too much, without the first."""

OPAQUE = frozenset(
    {
        "contains",
        "dependentSchemas",
        "else",
        "if",
        "not",
        "oneOf",
        "propertyNames",
        "then",
    }
)
"""Inside these, admitting more can mean admitting less outside, or they are taken as one."""

_OPAQUE_ONLY = OPAQUE - {"oneOf"}

EVALUATING = frozenset(
    {"$dynamicRef", "contains", "dependentSchemas", "if", "not", "patternProperties"}
)
UNEVALUATED = frozenset({"unevaluatedItems", "unevaluatedProperties"})
"""These forbid what nothing else has spoken of: where one that speaks is gone, so must these be."""

HARD = frozenset(
    {
        "$dynamicRef",
        "contains",
        "dependentRequired",
        "dependentSchemas",
        "if",
        "maxProperties",
        "minProperties",
        "multipleOf",
        "not",
        "oneOf",
        "patternProperties",
        "propertyNames",
        "unevaluatedItems",
        "unevaluatedProperties",
        "uniqueItems",
    }
)
"""Keywords that no engine holds, or only in some company."""

_COUNTS = frozenset({"maxItems", "maxLength", "minItems", "minLength"})
MANY = 1_000
"""A count that an engine may refuse to unroll."""


@dataclass(frozen=True)
class Occurrence:
    """A keyword at its place. `pointer` leads to the keyword."""

    pointer: str
    keyword: str

    @property
    def owner(self) -> str:
        """The pointer of the subschema that has it."""
        return self.pointer.rpartition("/")[0]


def hard_ones(schema: Any) -> list[Occurrence]:
    """Every occurrence that may have to be taken out, those inside a `oneOf` included, which can
    become an `anyOf`. In the schema's order."""
    return [
        Occurrence(f"{pointer}/{escape(keyword)}", keyword)
        for pointer, node in reachable(
            schema, enters=lambda _, keyword: keyword not in _OPAQUE_ONLY
        )
        for keyword, value in node.items()
        if _hard(keyword, value)
    ]


def doubtful_ones(schema: Any) -> list[Occurrence]:
    """The hard ones, and those whose values an engine may be unable to hold: expressions that it
    cannot parse, counts beyond its limits."""
    return [
        Occurrence(f"{pointer}/{escape(keyword)}", keyword)
        for pointer, node in reachable(
            schema, enters=lambda _, keyword: keyword not in _OPAQUE_ONLY
        )
        for keyword, value in node.items()
        if keyword in HARD | {"format", "pattern"} or _large(keyword, value)
    ]


def _large(keyword: str, value: Any) -> bool:
    return keyword in _COUNTS and value > MANY


def _hard(keyword: str, value: Any) -> bool:
    if keyword in HARD:
        return True
    if keyword == "pattern":
        return not holdable(value)
    if keyword == "format":
        return value in CHECKED
    return keyword in NUMERIC and not exact(value)


def relaxed(schema: Any, without: Collection[Occurrence]) -> Any:
    """A copy of `schema` that admits all it admits and more: `oneOf` becomes `anyOf`, every other
    occurrence is gone, and so is what makes no sense without it."""
    schema = copied(schema)
    kept = links(schema)
    nodes = [(at_pointer(schema, o.owner), o.keyword) for o in without]
    for node, keyword in nodes:
        if keyword == "oneOf":
            node["allOf"] = [*node.get("allOf", ()), {"anyOf": node["oneOf"]}]
        for gone in TOGETHER.get(keyword, (keyword,)):
            node.pop(gone, None)
    gathered(schema, kept)
    return schema


def left_open(schema: Any, gone: Collection[Occurrence]) -> tuple[Occurrence, ...]:
    """All that `relaxed` takes out with `gone`, in the schema's order."""
    found = []
    for pointer, node in reachable(schema, enters=lambda _, keyword: keyword not in _OPAQUE_ONLY):
        here = {o.keyword for o in gone if o.owner == pointer}
        here = {k for keyword in here for k in TOGETHER.get(keyword, (keyword,)) if k in node}
        found += [Occurrence(f"{pointer}/{escape(k)}", k) for k in node if k in here]
    return tuple(found)


def within(schema: Any, occurrence: Occurrence, others: Collection[Occurrence]) -> set[Occurrence]:
    """Those of `others` that stand inside an opaque keyword, also by reference: while it is kept
    they are, since admitting more inside could admit less outside."""
    if occurrence.keyword not in OPAQUE:
        return set()
    node = at_pointer(schema, occurrence.owner)
    inside = {
        id(found)
        for keyword in TOGETHER.get(occurrence.keyword, (occurrence.keyword,))
        if keyword in node
        for start, _ in under(occurrence.owner, keyword, node[keyword])
        for _, found in reachable(schema, start=start)
    }
    return {o for o in others if id(at_pointer(schema, o.owner)) in inside}
